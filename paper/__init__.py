"""The paper's tables and figures: what each needs is run, and our numbers are shown beside the paper's.

    make paper                                        all items: their runs, how many are done, how long the rest takes
    make paper ITEM=table1 ARGS="--seeds 0-4"         run what is missing, then tables, pictures, verdicts

__main__.py   the command: lists, runs, shows           items.yaml   what is trained, what the paper claims
items.py      the items, read from items.yaml           published/   the paper's numbers
results.py    what finished runs measured               turned.py    Fashion-MNIST in 80 classes, for items.yaml
tables.py     a panel as a table, sentences, verdicts
page.py       docs/results.md and all figures
"""
