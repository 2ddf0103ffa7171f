"""Figures for a paper: as wide as a column or a page, one line per method, the spread over seeds as a band.

bands.py       the mean over seeds and its spread, round by round

They are drawn from histories, wherever those come from.
"""
