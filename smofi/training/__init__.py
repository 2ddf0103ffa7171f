"""The Python call: `smofi.train(model, clients, test, method="smofi", ...)`.

Internal: may change without notice.
"""

from smofi.training.calls import arguments_of, make_planner, prepare, train
from smofi.training.session import Result, Session

__all__ = ["Result", "Session", "arguments_of", "make_planner", "prepare", "train"]
