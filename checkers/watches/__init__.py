"""Watches judge a simulation while it runs, one file each."""
