"""gRPC, and the options of its channels."""

from __future__ import annotations

import asyncio
from typing import Any

from smofi.errors import InputError
from smofi.net.transport.envelope import HEAD, LARGE_PIECE
from smofi.net.transport.limits import KIB, MIB
from smofi.net.transport.times import Times

try:
    import grpc
    import grpc.aio
except ModuleNotFoundError:
    raise InputError('grpcio is not installed; it comes with: pip install "smofi[net]"') from None

BROKEN = (grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError)
"""What gRPC raises when a stream is used that has ended."""

LARGEST = LARGE_PIECE + HEAD + KIB
"""The most bytes of a message. An opening has a name besides, and a hello that is no longer than a piece."""

UNDER_WAY = 4 * MIB
"""The most bytes on their way to a side that has not read them yet. A session sends less where the network is slow."""

ANSWERED = 2.5
"""How long a sign of life may take, in keepalives."""

SERVICE, METHOD = "smofi.Training", "Join"


def common_options(times: Times) -> dict[str, Any]:
    """Pings that keep a connection open and notice a dead one; gRPC's own threads answer them, whatever Python does."""
    milliseconds = max(1, round(times.keepalive * 1000))
    return {
        "grpc.max_send_message_length": LARGEST,
        "grpc.max_receive_message_length": LARGEST,
        "grpc.keepalive_time_ms": milliseconds,
        "grpc.keepalive_timeout_ms": milliseconds,
        # The answer waits behind data that fills a slow network, and comes all the same.
        "grpc.http2.ping_timeout_ms": round(ANSWERED * milliseconds),
        "grpc.keepalive_permit_without_calls": 1,
        "grpc.http2.max_pings_without_data": 0,
        # Data that fills a network holds up pings as well: nothing probes how much more there could be under way.
        "grpc.http2.bdp_probe": 0,
        "grpc.http2.lookahead_bytes": UNDER_WAY,
        "grpc.http2.max_frame_size": UNDER_WAY,
        # A few compressed bytes may be gigabytes: only plain ones are taken.
        "grpc.per_message_decompression": 0,
        "grpc.compression_enabled_algorithms_bitset": 1,
    }


def server_options(times: Times) -> list[tuple[str, Any]]:
    """Of a server: a taken port is an error, and whoever does not open a stream is cut off."""
    wait = max(1, round(times.connect * 1000))
    return list(
        {
            **common_options(times),
            "grpc.so_reuseport": 0,
            "grpc.http2.max_ping_strikes": 0,
            "grpc.http2.min_ping_interval_without_data_ms": 100,
            "grpc.max_concurrent_streams": 4,
            "grpc.server_handshake_timeout_ms": wait,
            "grpc.max_connection_idle_ms": wait,
        }.items()
    )


def client_options(times: Times) -> list[tuple[str, Any]]:
    """Of a client: each attempt to connect is a new one, and the dialer decides when."""
    return list(
        {
            **common_options(times),
            "grpc.use_local_subchannel_pool": 1,
            "grpc.enable_retries": 0,
        }.items()
    )


__all__ = ["grpc", "BROKEN", "SERVICE", "METHOD", "client_options", "server_options"]
