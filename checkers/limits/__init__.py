"""Limits of a check: time, memory, and what happens when they are reached."""
