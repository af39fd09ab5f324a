"""The pipeline over many runs, on Spark; for now what starts Spark where only pip is at hand."""
