"""The simulated side of the node's seams: one event loop in virtual time for many nodes."""
