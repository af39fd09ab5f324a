"""Reads faults and times out of a history, for the checkers that judge a run as a whole."""
