"""The material of pictures: shapes as data, a time axis, and what a run tells of a moment."""
