"""Links between nodes: cut, slowed, lossy; shared by the environments."""
