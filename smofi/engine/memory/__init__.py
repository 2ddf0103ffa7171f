"""What a run needs, and a limit on it."""
