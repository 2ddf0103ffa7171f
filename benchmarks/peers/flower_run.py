"""FedAvg in Flower's simulation: its own strategy, Ray, two actors of one CPU and one thread each.

python flower_run.py .peers/work/fashion --weights flower.safetensors

Flower draws clients by random numbers of its own, and the number of a node says nothing of its partition; so a message
says which place in the round's cohort it is for. The rest of the strategy is FedAvg as it comes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import flower_client
import flwr  # type: ignore[import-not-found]
import torch
from flwr.app import (  # type: ignore[import-not-found]
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid, ServerApp  # type: ignore[import-not-found]
from flwr.serverapp.strategy import FedAvg  # type: ignore[import-not-found]
from flwr.simulation import run_simulation  # type: ignore[import-not-found]
from workload import Report, accuracy, arguments, keep

ACTORS = 2


class PlannedFedAvg(FedAvg):  # type: ignore[misc]
    """FedAvg for the planned cohorts."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        places = range(flower_client.work().cohorts.shape[1])
        for place, node in zip(places, sorted(grid.get_node_ids()), strict=False):
            told = ConfigRecord({"server-round": server_round, "place": place})
            content = RecordDict({"arrays": arrays, "config": told})
            yield Message(content=content, message_type=MessageType.TRAIN, dst_node_id=node)


def main() -> None:
    given = arguments(__doc__)
    os.environ[flower_client.WORKLOAD] = str(given.workload.resolve())
    os.environ[flower_client.CHANNELS_LAST] = str(int(given.channels_last))
    work = flower_client.work()
    server = ServerApp()
    report = Report()

    @server.main()  # type: ignore[untyped-decorator]
    def serve(grid: Grid, context: Context) -> None:
        torch.set_num_threads(ACTORS)  # the actors wait while the server evaluates
        model = work.model()

        def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            if not server_round:
                return None
            model.load_state_dict(arrays.to_torch_state_dict())
            report.round(accuracy(model, work))
            return MetricRecord({"accuracy": report.accuracies[-1]})

        strategy = PlannedFedAvg(fraction_evaluate=0.0)
        strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=given.rounds, evaluate_fn=evaluate)
        keep(given.weights, model.state_dict())

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": ACTORS}}
    run_simulation(server, flower_client.app, num_supernodes=len(work.sizes), backend_config=resources)
    print(report.line(torch=torch.__version__, flwr=flwr.__version__), flush=True)


if __name__ == "__main__":
    main()
