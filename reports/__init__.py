"""Reports: one offline HTML file per run."""
