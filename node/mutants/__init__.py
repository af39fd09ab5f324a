"""Seeded bugs, one file each, off unless asked for."""
