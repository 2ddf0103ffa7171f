"""The paper's tables and figures by command, and ours beside them: `smofi reproduce`.

items/        each table and figure as data: what varies, which methods, what the paper says
paper.py      the paper's own numbers, from published/    seeds.py       seeds as text
results.py    what finished runs measured                 files.py       the same as files kept with the project
measured.py   a panel with its numbers                    findings.py    sentences that follow from them
grid.py       a table of texts                            tables.py      a panel as a table, ours and the paper's
pictures.py   an item's figures                           page.py        the page of results
heterogeneity.py  how clients differ, without training
asked.py      what the command is asked for
checking.py   a run checked without its data              estimate.py    how long runs will take

Internal: may change without notice.
"""
