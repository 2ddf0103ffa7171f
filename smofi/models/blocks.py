"""A model that is not a sequence of blocks, made into one by naming its pieces in the order of its forward pass."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from smofi.errors import InputError, refuse
from smofi.models.architectures import chain, layers

Piece: TypeAlias = str | nn.Module | Callable[[Any], Any]
"""A part of a block: the name of a sub-module, a module, or a function of one tensor."""

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)

RELATIVE, ABSOLUTE = 1e-4, 1e-5
"""How far the outputs may be apart, as the same sums may be computed in another order."""


class Function(nn.Module):
    """Make a function a module."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)

    def extra_repr(self) -> str:
        return _name(self.function)


def blocks(module: nn.Module, pieces: Sequence[Piece | Sequence[Piece]], *, sample: Any) -> nn.Sequential:
    """Make an `nn.Sequential` of blocks of a module, which shares its parameters: what `smofi.train` can cut.

    pieces   a block each: the name of a sub-module (such as "layer1.0"), a module, a function of one tensor, or a list
             of such that run one after the other. They follow the order of the module's forward pass.
    sample   a batch. Module and blocks are run on it in evaluation and must agree; parameters left out, or used twice,
             are refused. Dropout that `forward` calls as a function cannot be seen this way: give it a piece of its
             own.

    >>> class Network(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.conv, self.relu, self.fc = nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Linear(4, 2)
    ...     def forward(self, x):
    ...         return self.fc(self.relu(self.conv(x)).mean((2, 3)))
    >>> made = blocks(Network(), [["conv", "relu"], [lambda x: x.mean((2, 3)), "fc"]], sample=torch.zeros(2, 1, 8, 8))
    >>> list(dict(made.named_children()))
    ['input', 'output']
    """
    if not isinstance(module, nn.Module):
        refuse("module", module, "an nn.Module")
    if isinstance(pieces, str) or not isinstance(pieces, Sequence) or len(pieces) < 2:
        refuse("pieces", pieces, "a list of at least two blocks, an input and an output block")
    found = [_named(module, block) for block in pieces]
    made = chain([block[0][1] if len(block) == 1 else _joined(block) for block in found])
    own = set(module.modules())
    for one in made.modules():
        if one not in own:
            one.training = module.training
    _check_tensors(module, [piece for block in found for piece in block])
    _check_outputs(module, made, found, sample)
    return made


def _named(module: nn.Module, block: Any) -> list[tuple[str, nn.Module]]:
    """Return the pieces of one block, with the names that errors call them by."""
    pieces = list(block) if isinstance(block, (list, tuple)) else [block]
    if not pieces:
        refuse("pieces", block, "at least one piece in every block")
    known: dict[str, nn.Module] = dict(module.named_modules(remove_duplicate=False))
    found: list[tuple[str, nn.Module]] = []
    for piece in pieces:
        if isinstance(piece, nn.Module):
            found.append((type(piece).__name__, piece))
        elif isinstance(piece, str) and piece and piece in known:
            found.append((piece, known[piece]))
        elif isinstance(piece, str):
            near = difflib.get_close_matches(piece, known, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            children = ", ".join(name for name, _ in module.named_children())
            refuse("pieces", piece, f"the name of a sub-module, one of {children} or below them{hint}")
        elif callable(piece):
            found.append((_name(piece), Function(piece)))
        else:
            refuse("pieces", piece, "the name of a sub-module, a module or a function of one tensor")
    return found


def _name(function: Callable[[Any], Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _joined(block: list[tuple[str, nn.Module]]) -> nn.Module:
    """Join the pieces of a block, each under a name of its own."""
    named: dict[str, nn.Module] = {}
    for name, module in block:
        plain = name.replace(".", "_").strip("<>")
        named[plain if plain not in named else f"{plain}_{len(named)}"] = module
    return layers(**named)


def _check_tensors(module: nn.Module, pieces: list[tuple[str, nn.Module]]) -> None:
    """Refuse pieces that do not use every tensor of the module once, or leave out dropout, which no output reveals."""
    expected = {id(tensor): name for name, tensor in _tensors(module)}
    users: dict[int, str] = {}
    for name, piece in pieces:
        for inner, tensor in _tensors(piece):
            if id(tensor) not in expected:
                raise InputError(f"pieces are not accepted: {inner} of {name} does not belong to the module")
            if id(tensor) in users:
                both = " and by ".join(dict.fromkeys([users[id(tensor)], name]))
                raise InputError(f"pieces are not accepted: {expected[id(tensor)]} is used twice, by {both}")
        users |= {id(tensor): name for _, tensor in _tensors(piece)}
    inside = {inner for _, piece in pieces for inner in piece.modules()}
    dropouts = [(name, one) for name, one in module.named_modules() if isinstance(one, DROPOUTS) and one.p]
    left = [name for tensor, name in expected.items() if tensor not in users]
    left += [name for name, one in dropouts if one not in inside]
    if left:
        shown = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
        raise InputError(
            f"pieces are not accepted: {shown} {'is' if len(left) == 1 else 'are'} left out; what a function calls "
            "cannot be seen, so name it as a piece"
        )


def _tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [(name, one) for name, one in module.state_dict(keep_vars=True).items() if isinstance(one, Tensor)]


def _check_outputs(
    module: nn.Module, made: nn.Sequential, found: list[list[tuple[str, nn.Module]]], sample: Any
) -> None:
    """Refuse pieces that, run one after the other, do not give the module's output."""

    def given() -> Any:
        return sample.clone() if isinstance(sample, Tensor) else sample  # the first layer may work in place

    with _undisturbed(module, made):
        try:
            wanted = module(given())
        except Exception as error:
            raise InputError(f"sample is not accepted: the module fails on it: {error}") from error
    with _undisturbed(module, made):
        x = given()
        for number, block in enumerate(found):
            for name, piece in block:
                try:
                    x = piece(x)
                except Exception as error:
                    raise InputError(f"pieces are not accepted: {name}, in block {number}, fails: {error}") from error
    problem = ""
    if not isinstance(wanted, Tensor) or not isinstance(x, Tensor):
        problem = f"expected a tensor from both, not {type(wanted).__name__} and {type(x).__name__}"
    elif wanted.shape != x.shape:
        problem = f"its shape is {tuple(wanted.shape)}, theirs {tuple(x.shape)}"
    elif not torch.allclose(x, wanted, RELATIVE, ABSOLUTE, equal_nan=True):
        apart, most = float((x - wanted).abs().max()), float(wanted.abs().max())
        problem = f"they differ by up to {apart:.3g}, where the module's numbers reach {most:.3g}"
    if problem:
        raise InputError(
            f"pieces are not accepted: run one after the other, they do not give the module's output: {problem}"
        )


@contextmanager
def _undisturbed(*models: nn.Module) -> Iterator[None]:
    """Evaluate models; afterwards modes, buffers and random numbers are as before."""
    modes = {module: module.training for model in models for module in model.modules()}
    buffers = [(buffer, buffer.clone()) for model in models for buffer in model.buffers()]
    devices = {tensor.device for model in models for tensor in model.state_dict().values() if tensor.is_cuda}
    try:
        with torch.random.fork_rng(devices=list(devices)), torch.no_grad():
            for model in models:
                model.eval()
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
