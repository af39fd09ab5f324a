"""Processes of ours: started, watched, signalled and ended."""
