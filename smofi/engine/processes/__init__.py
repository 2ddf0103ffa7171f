"""Who shares the work."""
