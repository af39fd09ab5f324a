"""Replay a trace: the world it tells of, its order, its clocks and its voter sets."""
