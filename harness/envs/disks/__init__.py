"""Disks of nodes: troubles under a running node, damage to the files of one that is down."""
