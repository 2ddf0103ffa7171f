"""MLflow: https://mlflow.org, on a tracking server or in a local SQLite file."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from smofi.track.tracker import Tracker, need, started

LONGEST_PARAMETER, LONGEST_NAME, MOST_METRICS = 6000, 250, 1000  # what MLflow's stores accept


class MLflow(Tracker):
    """Record a run in an experiment of MLflow. Needs the extra `mlflow`.

    `tracking_uri` is a server's address or a local file, such as "sqlite:///mlflow.db"; if not given, MLflow's
    default, which MLFLOW_TRACKING_URI sets. `id` continues a run that was recorded before.
    """

    name = "MLflow"

    def __init__(
        self,
        experiment: str = "smofi",
        *,
        tracking_uri: str | None = None,
        config: Mapping[str, Any] | None = None,
        run_name: str | None = None,
        id: str | None = None,
    ) -> None:
        super().__init__(config)
        mlflow = need("mlflow", "mlflow")
        self._entities = need("mlflow.entities", "mlflow")
        self._new = id is None
        with _without_messages():
            self.client = started(self.name, lambda: mlflow.MlflowClient(tracking_uri=tracking_uri))
            self.id: str = id or started(self.name, lambda: self._create_run(experiment, run_name))
        if id is not None:
            started(self.name, lambda: self.client.set_terminated(id, status="RUNNING"))
        self.where: str = self.client.tracking_uri

    def hyperparameters(self, values: dict[str, Any]) -> None:
        if self._new:  # MLflow never changes a parameter
            parameters = [self._entities.Param(name, str(v)[:LONGEST_PARAMETER]) for name, v in values.items()]
            self.client.log_batch(self.id, params=parameters)

    def numbers(self, round: int, values: dict[str, float]) -> None:
        now = int(time.time() * 1000)
        metrics = [self._entities.Metric(_accepted(name), v, now, round) for name, v in values.items()]
        for start in range(0, len(metrics), MOST_METRICS):
            self.client.log_batch(self.id, metrics=metrics[start : start + MOST_METRICS])

    def text(self, kind: str, message: str, round: int) -> None:
        self.client.set_tag(self.id, kind, self.collected(kind, message, round))

    def end(self, completed: bool) -> None:
        self.client.set_terminated(self.id, status="FINISHED" if completed else "FAILED")

    def _create_run(self, experiment: str, run_name: str | None) -> str:
        found = self.client.get_experiment_by_name(experiment)
        number = found.experiment_id if found else self.client.create_experiment(experiment)
        return str(self.client.create_run(number, run_name=run_name).info.run_id)


def _accepted(name: str) -> str:
    """A metric's name as MLflow takes it; clients may have names with other characters.

    >>> _accepted("metrics/per_client/St. Mary's, north")
    'metrics/per_client/St. Mary_s_ north'
    """
    return re.sub(r"[^\w./ -]", "_", name)[:LONGEST_NAME]


@contextlib.contextmanager
def _without_messages() -> Iterator[None]:
    """Without MLflow's messages about every table it creates in a new database."""
    logger = logging.getLogger("mlflow")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
