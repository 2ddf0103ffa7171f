"""The paper's table from finished runs: a block for each setup, a row for each method, means and spreads over seeds.

target.py        the target as it is written: 0.9, 1.0, 70%      paired.py    differences to the base, seed by seed
gathering.py     runs that belong together, and those left out   blocks.py    the numbers of one setup
sheets.py        the same as cells of text                       formats.py   what can be written, and into which file
as_text.py       for the terminal                                as_csv.py    for programs
as_markdown.py   for pages                                       as_latex.py  for papers, with booktabs
writing.py       which sheets there are, and their text in the last three formats
"""
