"""What the programs of this folder share. A program imports from here; nothing here imports a program.

rows.py            what was measured: rows of labels and values, printed, kept as lines of JSON, shown as a table
goals.py           what was aimed at, and whether it was reached
origin.py          what a result depends on: command, versions, commit, machine
options.py         the command line that all programs understand
settings.py        what is measured: models with their clients
timing.py          seconds of a call, in one process or in several
peak.py            memory: the peak of a process that trains for a round
internals.py       what the programs use of smofi beyond its public names; report.py the same of its report
connections.py     the same of what deployments need, with the extra net
growth_picture.py  the rows of growth.py as a picture
peers_rows.py      the rows of peers/compare.py as a table, with goals
"""
