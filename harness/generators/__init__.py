"""Generators decide what the clients do next, as immutable values."""
