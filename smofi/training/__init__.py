"""The Python call: `smofi.train(model, clients, test, method="smofi", ...)`.

Internal: may change without notice.
"""

from smofi.training.arguments import Arguments
from smofi.training.calls import prepare, train
from smofi.training.planner import make_planner
from smofi.training.session import Result, Session

__all__ = ["Arguments", "Result", "Session", "make_planner", "prepare", "train"]
