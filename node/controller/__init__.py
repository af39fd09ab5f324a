"""The quorum controller: requests to records, pure."""
