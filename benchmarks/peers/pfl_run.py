"""FedAvg in pfl-research's simulation: its own algorithm, two processes under torchrun, one thread each.

torchrun --standalone --nproc-per-node 2 pfl_run.py .peers/work/fashion --weights pfl.safetensors

What pfl calls a user is here a place in a round's cohort, so that users come in the planned order with the planned
batches. Users are dealt to the processes by their number of steps, as pfl does when it is told their weights.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator
from typing import Any

import pfl  # type: ignore[import-not-found]
import torch
from pfl.aggregate.simulate import SimulatedBackend  # type: ignore[import-not-found]
from pfl.aggregate.weighting import WeightByDatapoints  # type: ignore[import-not-found]
from pfl.algorithm.base import NNAlgorithmParams  # type: ignore[import-not-found]
from pfl.algorithm.federated_averaging import FederatedAveraging  # type: ignore[import-not-found]
from pfl.callback.central_evaluation import CentralEvaluationCallback  # type: ignore[import-not-found]
from pfl.data.federated_dataset import FederatedDataset  # type: ignore[import-not-found]
from pfl.data.pytorch import PyTorchTensorDataset  # type: ignore[import-not-found]
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams  # type: ignore[import-not-found]
from pfl.internal.ops import pytorch_ops  # type: ignore[import-not-found]
from pfl.metrics import Metrics, StringMetricName, Weighted  # type: ignore[import-not-found]
from pfl.model.pytorch import PyTorchModel  # type: ignore[import-not-found]
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from workload import AT_ONCE, Report, Share, Workload, arguments, keep


class Network(nn.Module):
    """The model with the two functions that pfl needs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        if not self.training:
            self.train()
        return cross_entropy(self.model(inputs), targets)

    @torch.inference_mode()
    def metrics(self, inputs: Tensor, targets: Tensor) -> dict[str, Any]:
        if self.training:
            self.eval()
        return {"accuracy": Weighted(int((self.model(inputs).argmax(1) == targets).sum()), len(targets))}


class WithStatistics(PyTorchModel):  # type: ignore[misc]
    """pfl averages parameters only; with BatchNorm's statistics among them it computes what the others do."""

    def __init__(self, network: Network, **options: Any) -> None:
        statistics = {name: one for name, one in network.named_buffers() if one.is_floating_point()}
        averaged = [*network.parameters(), *statistics.values()]
        # W <- W - 1 * (W - W̄)
        super().__init__(network, central_optimizer=torch.optim.SGD(averaged, lr=1.0), **options)
        self._variable_map |= statistics


class PlannedUser(PyTorchTensorDataset):  # type: ignore[misc]
    """A client's share of a round: weighted by its number of samples, with the planned batches."""

    def __init__(self, work: Workload, share: Share) -> None:
        super().__init__(work.train, user_id=str(share.client))
        self.share = share

    def __len__(self) -> int:
        return self.share.size

    def iter(self, batch_size: int | None) -> Iterator[list[Tensor]]:
        return ([part[rows] for part in self.raw_data] for rows in self.share.order)


class PlannedFedAvg(FederatedAveraging):  # type: ignore[misc]
    """FedAvg that does not evaluate the first round's users on their own samples."""

    def get_next_central_contexts(self, *given: Any, **named: Any) -> Any:
        contexts, model, metrics = super().get_next_central_contexts(*given, **named)
        quiet = contexts and tuple(dataclasses.replace(one, do_evaluation=False) for one in contexts)
        return quiet, model, metrics


class EveryRound(CentralEvaluationCallback):  # type: ignore[misc]
    """pfl's evaluation, shared by the processes: after every round, where pfl has it before the first and not after."""

    def __init__(self, report: Report, *given: Any) -> None:
        super().__init__(*given)
        self.report = report

    def on_train_begin(self, *, model: Any) -> Metrics:
        self.report.started = time.time()
        return Metrics()

    def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
        stop, metrics = self._eval(model)
        self.report.round(metrics[StringMetricName("Central val | accuracy")].overall_value)
        return stop, metrics


def main() -> None:
    given = arguments(__doc__)
    torch.set_num_threads(1)
    work, report = Workload(given.workload, given.channels_last), Report()
    settings, cohort = work.settings["optimizer"], work.cohorts.shape[1]
    users = itertools.cycle(range(work.cohorts.size))
    data = FederatedDataset(
        lambda user: PlannedUser(work, work.share(*divmod(user, cohort))),
        lambda: next(users),
        user_id_to_weight=dict(enumerate(work.steps.ravel().tolist())),
    )
    model = WithStatistics(
        Network(work.model()),
        local_optimizer_create=lambda parameters, lr: torch.optim.SGD(parameters, lr, momentum=settings["momentum"]),
    )
    test = PyTorchTensorDataset(work.test)
    PlannedFedAvg().run(
        NNAlgorithmParams(given.rounds, evaluation_frequency=1, train_cohort_size=cohort, val_cohort_size=0),
        SimulatedBackend(data, val_data=None, postprocessors=[WeightByDatapoints()]),
        model,
        NNTrainHyperParams(local_batch_size=None, local_num_epochs=1, local_learning_rate=settings["lr"]),
        callbacks=[EveryRound(report, test, NNEvalHyperParams(local_batch_size=AT_ONCE))],
    )
    if pytorch_ops.distributed.global_rank == 0:
        keep(given.weights, model.pytorch_model.model.state_dict())
        print(report.line(torch=torch.__version__, pfl=pfl.__version__), flush=True)


if __name__ == "__main__":
    main()
