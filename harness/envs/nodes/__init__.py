"""Nodes of an environment: their names, the hands on their files, the hold on their processes."""
