"""What torch's losses take for granted."""

IGNORED = -100
"""The target that torch's cross-entropy leaves out."""
