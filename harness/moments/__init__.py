"""Moments: the data of a trigger, the pure matcher over events, and both in words."""
