"""Faults: one file per kind, each with its evidence and its heal."""
