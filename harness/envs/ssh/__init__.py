"""The ssh environment runs nodes on hosts of a list, one supervisor each."""
