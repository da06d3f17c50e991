"""What draws completions; see `backend`."""
