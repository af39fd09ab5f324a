"""The catalogue of real bugs: those that seeded ones stand for, and the runs that show a bug."""
