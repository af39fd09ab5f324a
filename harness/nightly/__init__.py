"""A night of runs: a plan, a ledger that survives a kill, the work, and what it came to."""
