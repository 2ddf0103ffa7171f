"""FedAvg as a plain loop, one process, one thread.

python plain_loop.py .peers/work/fashion --weights plain.safetensors
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from workload import Report, Workload, accuracy, arguments, keep, train


def averaged(model: nn.Module, work: Workload, rounds: int) -> Iterator[None]:
    """Rounds of FedAvg, each of which leaves the average in the model."""
    for round in range(rounds):
        start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        mean: dict[str, Tensor] = {name: torch.zeros_like(tensor) for name, tensor in start.items()}
        shares = list(work.cohort(round))
        for share in shares:
            model.load_state_dict(start)
            train(model, work, share.order)
            for name, tensor in model.state_dict().items():
                if tensor.is_floating_point():
                    mean[name].add_(tensor, alpha=share.size / sum(one.size for one in shares))
        model.load_state_dict(mean)
        yield


def main() -> None:
    given = arguments(__doc__)
    torch.set_num_threads(1)
    work = Workload(given.workload, given.channels_last)
    model = work.model()
    report = Report()
    for _ in averaged(model, work, given.rounds):
        report.round(accuracy(model, work))
    keep(given.weights, model.state_dict())
    print(report.line(torch=torch.__version__), flush=True)


if __name__ == "__main__":
    main()
