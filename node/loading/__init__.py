"""Loads committed batches and snapshots into the metadata image, for brokers and controllers.

All of it is pure: it is told what happened and what time it is, and calls publishers.
"""
