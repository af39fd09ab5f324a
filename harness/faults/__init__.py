"""Faults as data: a schedule is drawn, saved, and played against a cluster."""
