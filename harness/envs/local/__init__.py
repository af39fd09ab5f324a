"""The local environment runs nodes as processes on loopback addresses."""
