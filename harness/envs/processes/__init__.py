"""Processes of nodes whose kernel is this host's, followed to their ends."""
