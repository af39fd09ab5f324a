"""The handlers in this folder do what a replica does that does not lead."""
