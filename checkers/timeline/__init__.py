"""What the history says of faults and time; shared by the checkers that judge a run as a whole."""
