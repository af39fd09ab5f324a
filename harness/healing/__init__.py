"""Healing undoes what faults left on a host, also after the harness was killed."""
