"""The Python call: `smofi.train(model, clients, test, method="smofi", ...)`.

arguments.py   what `smofi.train` and `smofi.prepare` take: names, types, defaults, and a check of each by itself
signature.py   their signature and help, and names of arguments that do not exist
calls.py       from arguments to a run that is checked and ready, and the two functions themselves
given.py       a caller's data as samples
planner.py     what plans the rounds, which is all that `smofi advise` and `smofi timeline` need
session.py     such a run, and what it gives back
ending.py      Ctrl-C: the round is finished, and what there is comes back
progress.py    the display, for those who ask for it

Internal: may change without notice.
"""

from smofi.training.arguments import Arguments
from smofi.training.calls import prepare, train
from smofi.training.planner import make_planner
from smofi.training.session import Result, Session

__all__ = ["Arguments", "Result", "Session", "make_planner", "prepare", "train"]
