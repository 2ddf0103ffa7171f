"""The board for Prometheus: counted when it is asked, in a registry of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily as Counter
from prometheus_client.metrics_core import GaugeMetricFamily as Gauge
from prometheus_client.metrics_core import InfoMetricFamily as Info
from prometheus_client.metrics_core import Metric
from prometheus_client.metrics_core import SummaryMetricFamily as Summary
from prometheus_client.registry import Collector

from smofi.net.status.board import Board
from smofi.net.status.clients import STATES

RUN_STATES = ("waiting", "running", "paused", "ended")


def registry_of(board: Board) -> CollectorRegistry:
    """A registry with the metrics of one board and nothing else."""
    registry = CollectorRegistry()
    registry.register(BoardCollector(board))
    return registry


def exposition(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """The metrics as text, and its type: OpenMetrics where it is asked for."""
    encoder, kind = choose_encoder(accept)
    return encoder(registry), kind


class BoardCollector(Collector):
    """Reads the board whenever Prometheus does."""

    def __init__(self, board: Board) -> None:
        self.board = board

    def describe(self) -> Iterable[Metric]:
        return []  # names are known when the board is read

    def collect(self) -> Iterator[Metric]:
        snapshot = self.board.snapshot()
        yield from _of_run(snapshot["run"])
        yield from _of_clients(snapshot["clients"])
        yield Counter("smofi_refused_connections", "Connections that were refused", snapshot["refused_connections"])


def _of_run(run: dict[str, Any]) -> Iterator[Metric]:
    yield Info("smofi_run", "The run that is served", value={"method": run["method"]})
    yield _states("smofi_run_state", "1 for the state that the run is in", RUN_STATES, [run["state"]])
    yield Gauge(
        "smofi_paused", "1 while the run is paused, for instance for lack of clients", run["paused"] is not None
    )
    yield Counter(
        "smofi_paused_seconds", "Time that the run was paused, without the current pause", run["paused_seconds"]
    )
    yield Counter("smofi_warnings", "Warnings about the training", run["warnings"])
    yield Gauge("smofi_round", "The current round, counted from 1", run["round"])
    yield Gauge("smofi_rounds_done", "Rounds that are finished", run["done"])
    yield Gauge("smofi_rounds_planned", "Rounds that the run is to have", run["rounds"])
    yield Gauge("smofi_step", "The last step of the current round that is done", run["step"])
    yield Gauge("smofi_round_steps", "Steps of the current round", run["steps"])
    yield from _of_evaluation(run)
    timed = Summary("smofi_round_duration_seconds", "Duration of the rounds that this server trained")
    timed.add_metric([], run["rounds_timed"], run["seconds_timed"])
    yield timed
    yield from _known("smofi_last_round_timestamp_seconds", "When the last round ended", run["last_round_end"])
    yield from _known("smofi_run_start_timestamp_seconds", "When this server started the run", run["started"])


def _of_evaluation(run: dict[str, Any]) -> Iterator[Metric]:
    latest = run["latest"] or {"values": {}, "loss": None, "train_loss": None}
    yield from _known("smofi_accuracy_ratio", "Accuracy on the test data, 0 to 1", latest["values"].get("top1"))
    yield from _known("smofi_loss", "Loss on the test data", latest["loss"])
    yield from _known(
        "smofi_train_loss", "Mean training loss of the last round that was evaluated", latest["train_loss"]
    )
    metrics = Gauge("smofi_metric", "Each metric of the last round that was evaluated", labels=["metric"])
    for name, value in latest["values"].items():
        if value is not None:
            metrics.add_metric([name], value)
    yield metrics


def _of_clients(clients: list[dict[str, Any]]) -> Iterator[Metric]:
    yield _states("smofi_clients", "Clients by state", STATES, [one["state"] for one in clients])
    yield Counter("smofi_steps", "Steps of all clients", sum(one["total_steps"] for one in clients))
    yield _each(Counter, "smofi_client_steps", "Steps of a client", clients, "total_steps")
    yield _each(Counter, "smofi_client_up_bytes", "Bytes that a client sent", clients, "bytes_up")
    yield _each(Counter, "smofi_client_down_bytes", "Bytes that a client received", clients, "bytes_down")
    yield _each(Counter, "smofi_client_joins", "How often a client has joined", clients, "joins")
    yield _each(Gauge, "smofi_client_steps_per_second", "Speed of a connected client", clients, "speed")
    yield _each(
        Gauge, "smofi_client_last_seen_timestamp_seconds", "When a client was last heard of", clients, "last_seen"
    )


def _states(name: str, about: str, states: Iterable[str], found: list[str]) -> Metric:
    metric = Gauge(name, about, labels=["state"])
    for state in states:
        metric.add_metric([state], found.count(state))
    return metric


def _known(name: str, about: str, value: float | None) -> Iterator[Metric]:
    """A value that is not known is left out: 0 would be a value."""
    if value is not None:
        yield Gauge(name, about, value)


def _each(kind: type[Gauge] | type[Counter], name: str, about: str, clients: list[dict[str, Any]], key: str) -> Metric:
    metric = kind(name, about, labels=["client"])
    for client in clients:
        if client[key] is not None:
            metric.add_metric([client["name"]], client[key])
    return metric
