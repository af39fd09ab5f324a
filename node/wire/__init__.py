"""Kafka's wire protocol through kio: frames, codec, server, connection."""
