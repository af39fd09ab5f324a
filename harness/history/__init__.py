"""Histories of ops: recorded, read back, and read from other tools' files."""
