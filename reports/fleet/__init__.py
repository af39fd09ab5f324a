"""The fleet report: many runs and nights on one page."""
