"""A cluster that somebody else started, as a system under test."""
