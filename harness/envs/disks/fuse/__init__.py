"""A file system of ours for nodes that have no seam for disk faults (Apache Kafka)."""
