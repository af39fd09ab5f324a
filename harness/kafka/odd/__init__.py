"""Requests that are well-formed, and wrong in one value: a node must refuse them, or do no harm."""
