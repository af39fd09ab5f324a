"""A session takes a run from its spec to its verdict, live or simulated."""
