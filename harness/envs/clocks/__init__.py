"""Clocks of node processes: faults through libfaketime, and what processes read on them."""
