"""A program that takes torch's private symbols away and then trains a small model with each executor.

It prints a line of JSON: {executor: [how clients were computed, hash of the result]}.
"""

import hashlib
import json
import sys

import torch
import torch.utils.flop_counter  # public, and made of what is removed below

SETTINGS = {"rounds": 2, "participation": 1.0, "local_epochs": 1, "batch_size": 4, "memory_limit": "100GB"}


def remove_privates() -> None:
    """All that smofi uses of torch and that another torch may lack."""
    del torch._C._functorch
    del torch._C._DisableFuncTorch
    del torch._foreach_copy_
    del torch.utils._python_dispatch.TorchDispatchMode

    def gone(tensor: torch.Tensor) -> None:
        raise AttributeError("_is_view")

    torch.Tensor._is_view = property(gone)  # a method of a type in C, which cannot be deleted
    assert not hasattr(torch.empty(0), "_is_view")


def trained(executor: str) -> tuple[str, str]:
    import smofi  # only now that the symbols are gone

    computed = []
    torch.manual_seed(0)
    images, labels = torch.randn(40, 1, 8, 8), torch.arange(40) % 3
    model = torch.nn.Sequential(
        torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 8), torch.nn.ReLU(), torch.nn.Dropout(0.2)),
        torch.nn.Linear(8, 3),
    )
    result = smofi.train(
        model,
        [(images[i::4], labels[i::4]) for i in range(4)],
        (images, labels),
        callback=lambda event: computed.append(event.computed) if isinstance(event, smofi.RunStarted) else None,
        executor=executor,
        **SETTINGS,
    )
    digest = hashlib.sha256()
    for name, tensor in result.model.state_dict().items():
        digest.update(name.encode() + tensor.numpy().tobytes())
    for record in result.history:
        digest.update(repr((record.train_loss, record.metrics)).encode())
    return computed[0], digest.hexdigest()


if __name__ == "__main__":
    torch.set_num_threads(1)
    remove_privates()
    sys.stdout.write(json.dumps({executor: trained(executor) for executor in ("loop", "vmap", "auto")}))
