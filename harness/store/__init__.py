"""Runs as folders: written so that a kill leaves them readable, read again, served."""
