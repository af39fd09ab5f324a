"""Disk faults of a node: what is wrong now, how to undo what is not fsynced, and its image."""
