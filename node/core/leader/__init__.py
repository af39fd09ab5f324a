"""The handlers in this folder do what a replica does as leader of its epoch."""
