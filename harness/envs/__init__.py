"""Environments: where node processes run."""
