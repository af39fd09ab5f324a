"""The simulated environment runs nodes on virtual hosts, in one process."""
