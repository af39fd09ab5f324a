"""The docker environment runs each node in a container of the local Docker Engine."""
