"""The monitor feeds events and records to all invariants at once."""
