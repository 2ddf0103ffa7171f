"""A model is one vector: where each parameter stands in it, and modules that compute with it directly.

    vector       | block 0 | block 1 | ... | block B-1 |        the parameters, [P]
    statistics   | block 0 | block 1 | ... | block B-1 |        the BatchNorm running statistics, [S]

Convolution weights are stored channels-last, so that a view into the vector has the memory format the CPU likes best.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from smofi.errors import InputError

Columns = slice
"""A run of columns of the vector."""


@dataclass(frozen=True)
class Place:
    """Say where one parameter or one statistic stands."""

    name: str
    shape: torch.Size
    columns: Columns
    channels_last: bool = False

    def view(self, columns: Tensor) -> Tensor:
        """Return the tensor that these columns hold: a view, never a copy."""
        if self.channels_last:
            out, into, height, width = self.shape
            return columns.view(out, height, width, into).permute(0, 3, 1, 2)
        return columns.view(self.shape)


@dataclass(frozen=True)
class Layout:
    """Say where a model's parameters and statistics stand, and which columns each of its blocks has."""

    blocks: tuple[str, ...]
    parameters: tuple[Place, ...]
    statistics: tuple[Place, ...]
    parameter_edges: tuple[int, ...]
    statistic_edges: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, model: nn.Sequential) -> Layout:
        """Lay out an `nn.Sequential` of blocks.

        >>> layout = Layout.of(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)))
        >>> layout.size, layout.columns(0, 1), layout.columns(1, 2)
        (13, slice(0, 9, None), slice(9, 13, None))
        """
        _refuse_unfit(model)
        convolutions = {f"{name}.weight" for name, m in model.named_modules() if isinstance(m, nn.Conv2d)}
        parameters, parameter_edges = _lay_out(_trained_parameters(model), convolutions)
        statistics, statistic_edges = _lay_out(_running_statistics(model), set())
        dtype = next(p.dtype for p in model.parameters() if p.requires_grad)
        return cls(tuple(model._modules), parameters, statistics, parameter_edges, statistic_edges, dtype)

    @property
    def size(self) -> int:
        """Return P, the number of parameters."""
        return self.parameter_edges[-1]

    @property
    def statistics_size(self) -> int:
        """Return S, the number of running statistics."""
        return self.statistic_edges[-1]

    def columns(self, first: int, last: int) -> Columns:
        """Return the parameter columns of blocks `first` to `last`, the last one excluded."""
        return slice(self.parameter_edges[first], self.parameter_edges[last])

    def statistic_columns(self, first: int, last: int) -> Columns:
        """Return the statistic columns of blocks `first` to `last`, the last one excluded."""
        return slice(self.statistic_edges[first], self.statistic_edges[last])

    def pack(self, model: nn.Module, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
        """Copy the model's parameters and statistics into two vectors."""
        vectors = (
            torch.empty(self.size, dtype=self.dtype, device=device),
            torch.empty(self.statistics_size, dtype=self.dtype, device=device),
        )
        self._copy(model, *vectors, into_model=False)
        return vectors

    def unpack(self, model: nn.Module, weights: Tensor, statistics: Tensor) -> None:
        """Copy two vectors into the model's own tensors."""
        self._copy(model, weights, statistics, into_model=True)

    def bind(
        self,
        model: nn.Module,
        weights: Callable[[Columns], Tensor],
        statistics: Callable[[Columns], Tensor],
        gradient: Callable[[Columns], Tensor] | None = None,
    ) -> None:
        """Make `model` compute with these columns: its parameters, buffers and gradients become views into them."""
        for place in self.parameters:
            parameter = model.get_parameter(place.name)
            parameter.data = place.view(weights(place.columns))
            parameter.grad = place.view(gradient(place.columns)) if gradient else None
        for place in self.statistics:
            owner, _, name = place.name.rpartition(".")
            model.get_submodule(owner)._buffers[name] = place.view(statistics(place.columns))

    @torch.no_grad()
    def _copy(self, model: nn.Module, weights: Tensor, statistics: Tensor, into_model: bool) -> None:
        tensors: list[tuple[Place, Tensor, Tensor]]
        tensors = [(p, weights, model.get_parameter(p.name)) for p in self.parameters]
        tensors += [(p, statistics, model.get_buffer(p.name)) for p in self.statistics]
        for place, vector, tensor in tensors:
            view = place.view(vector[place.columns])
            if into_model:
                tensor.copy_(view)
            else:
                view.copy_(tensor)


def columns_in(columns: slice) -> int:
    """Count the columns of a run.

    >>> columns_in(slice(3, 10))
    7
    """
    return int(columns.stop - columns.start)


CONTAINERS = (dict, OrderedDict, set)


def shell(model: nn.Sequential) -> nn.Sequential:
    """Copy the model's structure, to be bound to a row: of its tensors only counters are copied."""
    copies: dict[int, Any] = {id(b): b if b.is_floating_point() else b.clone() for b in model.buffers()}
    for p in model.parameters():
        copies[id(p)] = nn.Parameter(p.detach()) if p.requires_grad else p
    for module in model.modules():  # a dozen empty places for hooks each: most of what deepcopy would spend its time on
        copies |= {id(one): type(one)() for one in vars(module).values() if type(one) in CONTAINERS and not one}
    return copy.deepcopy(model, copies)


def blocks_of(model: nn.Sequential, first: int, last: int) -> nn.Sequential:
    """Return blocks `first` to `last` of a model, the last excluded, as a model that shares their tensors."""
    return nn.Sequential(*list(model)[first:last]).train(model.training)


def _trained_parameters(model: nn.Sequential) -> list[list[tuple[str, Tensor]]]:
    return [
        [(f"{block}.{name}", p) for name, p in child.named_parameters() if p.requires_grad]
        for block, child in model._modules.items()
        if child is not None
    ]


def _running_statistics(model: nn.Sequential) -> list[list[tuple[str, Tensor]]]:
    """Return the buffers that a state dict would hold, of the parameters' type: no counters, no constants."""
    kept = model.state_dict(keep_vars=True).keys()
    dtype = next(p.dtype for p in model.parameters() if p.requires_grad)
    return [
        [(f"{block}.{name}", b) for name, b in child.named_buffers() if b.dtype == dtype and f"{block}.{name}" in kept]
        for block, child in model._modules.items()
        if child is not None
    ]


def _lay_out(
    blocks: list[list[tuple[str, Tensor]]], channels_last: set[str]
) -> tuple[tuple[Place, ...], tuple[int, ...]]:
    places, edges, start = [], [0], 0
    for block in blocks:
        for name, tensor in block:
            columns = slice(start, start + tensor.numel())
            places.append(Place(name, tensor.shape, columns, name in channels_last))
            start += tensor.numel()
        edges.append(start)
    return tuple(places), tuple(edges)


def _refuse_unfit(model: object) -> None:
    for problem in _problems(model):
        raise InputError(f"model={type(model).__name__} is not accepted: {problem}")


def _problems(model: object) -> Iterator[str]:
    sequence = "expected an nn.Sequential of blocks (input block, core blocks, output block)"
    if not isinstance(model, nn.Module):
        yield sequence
        return
    if not isinstance(model, nn.Sequential) or type(model).forward is not nn.Sequential.forward:
        names = [name for name, _ in model.named_children()]
        pieces = names if len(names) > 1 else ["first", "second"]
        yield f"{sequence}, with no forward of its own; to make one of it, smofi.blocks(model, {pieces}, sample=inputs)"
        return
    if len(model) < 2:
        inside = len(model) == 1 and isinstance(model[0], nn.Sequential) and len(model[0]) > 1
        hint = ", which is one itself: give that" if inside else ""
        yield f"expected at least two blocks, an input and an output block, and it has {len(model)}{hint}"
    if any(is_lazy(parameter) for parameter in model.parameters()):
        yield "it has lazy modules that have not seen data yet; run it once on a sample"
        return
    trained = _trained_parameters(model)
    dtypes = {tensor.dtype for block in trained for _, tensor in block}
    if not dtypes:
        yield "it has no parameters to train"
        return
    if len(dtypes) > 1 or any(dtype.is_complex for dtype in dtypes):
        yield "its parameters have the types " + ", ".join(sorted(map(str, dtypes))) + "; expected a single real one"
    owners: dict[int, str] = {}
    for block in trained + _running_statistics(model):
        for name, tensor in block:
            if id(tensor) in owners:
                yield f"{name} is tied to {owners[id(tensor)]}, and a cut could part the two; give each block its own"
            owners[id(tensor)] = name
    for name, module in model.named_modules():
        if getattr(module, "track_running_stats", False) and getattr(module, "momentum", 0.1) is None:
            yield f"{name} keeps a running count (momentum=None), which cannot be averaged; give it a momentum"
