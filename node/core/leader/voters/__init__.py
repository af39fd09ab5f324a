"""A leader changes the voters: requests, their preconditions, the one change under way."""
