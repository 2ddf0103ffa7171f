"""Many clients in one pass."""
