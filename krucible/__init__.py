"""The command line: ``krucible``, also as ``python -m krucible``."""
