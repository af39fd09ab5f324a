"""The overlay: pending writes of the controller over what is committed."""
