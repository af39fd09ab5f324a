"""Models of sequential objects, one file per kind; ``krucible list models``."""
