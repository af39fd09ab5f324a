"""Workloads: client, generator and checkers, one file each."""
