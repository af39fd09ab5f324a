"""Batches of seeds: each a trial, whose result is data, and what many come to."""
