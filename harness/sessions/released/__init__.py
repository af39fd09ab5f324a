"""Bugs of released software are hunted: which, how a seed is played, and what counts as caught."""
