"""KRaft nodes of this project as real processes."""
