"""A round's rows."""
