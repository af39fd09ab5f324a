"""The command line: ``krucible``."""

from harness.cli.app import main

__all__ = ["main"]
