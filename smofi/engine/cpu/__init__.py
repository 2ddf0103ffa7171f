"""Cheaper passes on a CPU."""
