"""One run against a system that is up: clients, faults, and the judge."""
