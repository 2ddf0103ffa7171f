"""The methods of the field, one short file each. Your own joins them as python:module:function, or through `register`.

fedavg.py     the clients' average                  fedavgm.py    momentum on the global update
fedprox.py    a pull towards the global weights     slowmo.py     slow momentum on the global update
fednar.py     clipped weight decay                  fednag.py     Nesterov momentum, carried from round to round
clip.py       clipped gradients                     smofi.py      momentum fused at every step
sflv1.py      server models averaged                sflv2.py      one server model, client after client
mergesfl.py   one server model, merged batches      registry.py   methods by name, and written as strings

Public: the names in `__all__`.
"""

from smofi.methods.clip import clip
from smofi.methods.fedavg import fedavg
from smofi.methods.fedavgm import fedavgm
from smofi.methods.fednag import fednag
from smofi.methods.fednar import fednar
from smofi.methods.fedprox import fedprox
from smofi.methods.mergesfl import mergesfl
from smofi.methods.registry import METHODS, bare_base, load_plugins, method_name, parse_method, register
from smofi.methods.sflv1 import sflv1
from smofi.methods.sflv2 import sflv2
from smofi.methods.slowmo import slowmo
from smofi.methods.smofi import smofi

__all__ = [
    "METHODS",
    "bare_base",
    "clip",
    "fedavg",
    "fedavgm",
    "fednag",
    "fednar",
    "fedprox",
    "load_plugins",
    "mergesfl",
    "method_name",
    "parse_method",
    "register",
    "sflv1",
    "sflv2",
    "slowmo",
    "smofi",
]
