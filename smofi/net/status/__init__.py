"""A served run to watch.

board.py      a picture of the run, safe to feed and to read from several threads
progress.py   what the engine's events say of the run       clients.py   what is known of each client
curve.py      its rounds as points of a curve               happened.py  what happened, in sentences
parts.py      lists that know what changed since when       headline.py  the run in a sentence
server.py     the web server, in a thread of its own        app.py       its pages and streams
access.py     addresses, tokens, who may read               document.py  the live page, and what it may load
arrivals.py   who comes and goes, in few sentences
metrics.py    the picture for Prometheus                    connection.py  how many connections, and how long

    from smofi.net.status import Board, StatusServer

Internal: may change without notice.
"""

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.net.status.arrivals import Arrivals, listed_names
    from smofi.net.status.board import Board
    from smofi.net.status.clients import STATES
    from smofi.net.status.server import StatusServer
else:
    load_later(__name__, arrivals="Arrivals listed_names", board="Board", clients="STATES", server="StatusServer")

__all__ = ["STATES", "Arrivals", "Board", "StatusServer", "listed_names"]
