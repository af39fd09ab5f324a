"""The asyncio driver: runs the core's effects on sockets and files."""
