"""The doctor tells what this host has, what it lacks, and what to do about it."""
