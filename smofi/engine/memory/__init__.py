"""How much memory a run takes.

needs    as sums that a reader can check
limit    how many clients may be computed at once within a limit, or why nothing fits
"""
