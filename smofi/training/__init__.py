"""The Python call: `smofi.train(model, clients, test, method="smofi", ...)`.

calls.py       train and prepare, and how a run is put together from their arguments
arguments.py   the arguments, checked, and a caller's data as samples
session.py     a run that is ready, what it gives back, Ctrl-C, progress

Internal: may change without notice.
"""

from smofi.training.calls import arguments_of, make_planner, prepare, train
from smofi.training.session import Result, Session

__all__ = ["Result", "Session", "arguments_of", "make_planner", "prepare", "train"]
