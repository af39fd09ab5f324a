"""The environment of clusters that somebody else started: reaches only what its file names."""
