"""The replicated log on disk: record batches v2, segments, quorum-state."""
