"""Smaller sets that still contradict: what an explanation names, and nothing that it can spare."""
