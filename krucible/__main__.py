"""Run the command line: ``python -m krucible``."""

from __future__ import annotations

from krucible.entry import main

if __name__ == "__main__":
    main()
