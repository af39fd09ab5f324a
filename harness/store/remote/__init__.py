"""Runs as objects of a bucket, and the folders that stand for them while a command works."""
