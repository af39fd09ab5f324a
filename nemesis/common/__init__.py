"""Helpers of nemeses: targets, claims, evidence, restarts."""
