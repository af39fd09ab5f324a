"""Metadata records and the image they fold into."""
