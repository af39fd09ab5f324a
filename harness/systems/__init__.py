"""Systems under test: how to run one and how to talk to it."""
