"""The model in pieces: what the client computes and what the server computes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smofi.cut import Cut, CutSpec, parse_cut
from smofi.errors import check_choice, refuse, refuse_unwanted
from smofi.export.request import PARTS
from smofi.export.trained import TrainedRun


@dataclass(frozen=True)
class ModelPiece:
    """A run of blocks that computes by itself: its modules under their names in the whole model, and an input."""

    name: str
    module: nn.Sequential
    example: Tensor


def chosen_cut(run: TrainedRun, part: str | None, cut: CutSpec | None) -> Cut | None:
    """Where to split the model: where the run did, or at `cut`, which a run with several cuts needs."""
    if part is None:
        if cut is not None:
            refuse_unwanted("cut", cut, "the whole model is exported unsplit; a cut is for part client or server")
        return None
    check_choice("part", part, PARTS)
    if cut is not None:
        options = parse_cut(cut, run.layout, clients=1).options
        if len(options) != 1:
            refuse("cut", cut, "a single cut, such as 1 or 1,1")
        return options[0]
    trained = parse_cut(run.config["cut"], run.layout, run.config["clients"]).options
    if len(trained) > 1:
        cuts = ", ".join(dict.fromkeys(f'"{one}"' for one in trained))
        refuse("part", part, f"a cut too, because the run used several; cut is one of {cuts}")
    return trained[0]


def pieces(run: TrainedRun, part: str | None, cut: Cut | None) -> list[ModelPiece]:
    """The whole model, the server's part, or the client's: one piece, or front and back in the U shape."""
    first, last, blocks = (cut.first, cut.last, cut.blocks) if cut else (0, 0, len(run.model))
    ranges = [("front", range(first)), ("server", range(first, last)), ("back", range(last, blocks))]
    if part is None:
        wanted = {"back": "model"}
    elif part == "server":
        wanted = {"server": "model"}
    else:
        wanted = {"front": "front", "back": "back"} if cut and cut.u_shaped else {"front": "model"}
    found, x = [], run.task.example(2)  # two: torch.export treats a batch of one as a constant
    for place, indices in ranges:
        module = _blocks(run.model, indices)
        if place in wanted:
            found.append(ModelPiece(wanted[place], module, x))
        with torch.no_grad():
            x = module(x)
    return found


def _blocks(model: nn.Sequential, indices: Iterable[int]) -> nn.Sequential:
    named = list(model.named_children())
    return nn.Sequential(OrderedDict(named[index] for index in indices)).eval()
