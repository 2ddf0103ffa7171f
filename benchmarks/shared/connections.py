"""What the programs about deployments use of smofi beyond its public names; its connections need the extra `net`."""

from __future__ import annotations

from smofi.engine.passes import direct
from smofi.engine.remote.crossing import Crossing, Task
from smofi.engine.remote.pool import two_at_a_time
from smofi.net.certs import Gate, Identity, client_credentials, init, issue, server_credentials
from smofi.net.transport.dialer import Dialer
from smofi.net.transport.envelope import Buffer
from smofi.net.transport.events import Arrived, Joined, Received, Welcomed
from smofi.net.transport.limits import Limits
from smofi.net.transport.listener import Listener
from smofi.net.transport.times import Times
from smofi.serving.admission import Admission

__all__ = [
    "Admission",
    "Arrived",
    "Buffer",
    "Crossing",
    "Dialer",
    "Gate",
    "Identity",
    "Joined",
    "Limits",
    "Listener",
    "Received",
    "Task",
    "Times",
    "Welcomed",
    "client_credentials",
    "direct",
    "init",
    "issue",
    "server_credentials",
    "two_at_a_time",
]
