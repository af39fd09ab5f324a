"""KRaft nodes of any make: their processes, and their logs on disk."""
