"""Write the workloads for all contestants: data, partition, initial weights, cohorts and batches, all smofi's own.

python benchmarks/peers/prepare.py --fashion-mnist DIR --cifar10 DIR

Runs in the project's environment. A workload whose data is not named is left out; digits needs none.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save_file

import smofi
from smofi.config import Config, config_yaml
from smofi.config.federation import gather
from smofi.data import batch_order

MOMENTUM = 0.9
# At 0.05 digits is chaotic in float32: weights changed by 1e-7 give accuracies up to 60 points apart some rounds later.
RATES = {"fashion": 0.05, "cifar": 0.05, "digits": 0.01}
COMMON: dict[str, Any] = {
    "method": "fedavg",
    "partition": "dirichlet(0.2, balance=False)",
    "width": 16,
    "max_test": 2000,
}
LARGE: dict[str, Any] = {"clients": 100, "participation": 0.2, "batch_size": 32, "local_epochs": 1}
SMALL: dict[str, Any] = {"clients": 20, "participation": 0.5, "batch_size": 8, "local_epochs": 5}
WORKLOADS: dict[str, dict[str, Any]] = {
    "fashion": {"data": "fashion-mnist", "max_train": 20000, "model": "cnn", **LARGE},
    "cifar": {"data": "cifar10", "max_train": 10000, "model": "resnet8", **LARGE},
    "digits": {"data": "digits", "model": "cnn", **SMALL},
}
FOLDERS = {"fashion": "fashion_mnist", "cifar": "cifar10"}


def write(folder: Path, config: Config, lr: float) -> None:
    """All files of one workload; `workload.py` says what is in them."""
    folder.mkdir(parents=True, exist_ok=True)
    federation = gather(config)
    model = config.build_model(federation.source)
    (folder / "smofi.yaml").write_text(config_yaml(config))
    architecture = {
        "name": config.model,
        "input_shape": federation.source.input_shape,
        "classes": federation.source.classes,
        "width": config.width,
    }
    settings = {"model": architecture, "optimizer": {"lr": lr, "momentum": MOMENTUM}}
    (folder / "workload.json").write_text(json.dumps(settings, indent=1))
    tensors = dict(zip(("train_inputs", "train_targets"), federation.source.train.tensors(), strict=True))
    tensors |= zip(("test_inputs", "test_targets"), federation.test.tensors(), strict=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "tensors.safetensors")
    save_file(
        {name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "initial.safetensors"
    )
    run = smofi.prepare(**config.arguments(federation), method=config.method[0]).run
    plans = [run.planner.plan(round) for round in range(config.rounds)]
    orders = []
    for plan in plans:
        for client, steps in zip(plan.clients, plan.steps, strict=True):
            part = federation.indices[client]
            keys = {"seed": config.seed, "round": plan.round, "client": client}
            orders.append(part[batch_order(len(part), config.batch_size, steps, **keys)])
    np.savez(
        folder / "plan.npz",
        cohorts=np.array([plan.clients for plan in plans]),
        steps=np.array([plan.steps for plan in plans]),
        orders=np.concatenate(orders),
        sizes=np.array([len(part) for part in federation.indices]),
        owners=federation.owners,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(".peers"), help="workloads go to its folder work")
    parser.add_argument("--fashion-mnist", type=Path, help="folder with the official files")
    parser.add_argument("--cifar10", type=Path, help="folder with the official files")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--lr", type=float, help="learning rate of all workloads, if not their own")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name in WORKLOADS:
        where = getattr(given, FOLDERS[name]) if name in FOLDERS else None
        if name in FOLDERS and where is None:
            print(f"{name}: left out, for --{FOLDERS[name].replace('_', '-')} is not given")
            continue
        prepare(given.folder / "work" / name, name, where, lr=given.lr, rounds=given.rounds, seed=given.seed)
        print(f"{name}: {given.folder / 'work' / name}")


def prepare(folder: Path, name: str, where: Path | None, lr: float | None = None, **settings: Any) -> Config:
    """The workload of this name, from the official files in `where`; returns smofi's configuration of it."""
    place = {"data_folder": str(where.resolve())} if where else {}
    lr = lr or RATES[name]
    config = Config(**COMMON, **WORKLOADS[name], **place, optimizer=f"sgd(lr={lr}, momentum={MOMENTUM})", **settings)
    write(folder, config, lr)
    return config


if __name__ == "__main__":
    main()
