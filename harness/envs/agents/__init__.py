"""Brings the agent to where it runs."""
