"""Shrinking looks for the smallest run that fails in the same way."""
