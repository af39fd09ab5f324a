"""Helpers of workloads: names of keys."""
