"""The agent runs beside a node, on its host or in its container: standard library only."""
