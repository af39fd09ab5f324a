"""Checkers: pure judgement over what a run left behind."""
