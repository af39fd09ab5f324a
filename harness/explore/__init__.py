"""A search that learns: features of runs, the corpus of those that are kept, and their changes."""
