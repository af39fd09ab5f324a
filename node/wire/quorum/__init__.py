"""Translates the APIs of the quorum between the core's messages and Kafka's structs."""
