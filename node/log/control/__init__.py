"""Control records of the log, and what they say by offset."""
