"""The model card: what the model is, how it came about, how to load it, and what it is not good for."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import smofi
from smofi.cut import Cut
from smofi.data.catalogue import descriptions
from smofi.export.pieces import ModelPiece
from smofi.export.trained import TrainedRun
from smofi.methods import METHODS
from smofi.spec import read_calls

MOST_CLASSES = 100
MOST_MOMENTS = 4  # channels; a table with more columns would not fit its cell

CITATION = """\
```bibtex
@inproceedings{yang2026smofi,
  title     = {{SMoFi}: Step-wise Momentum Fusion for Split Federated Learning on Heterogeneous Data},
  author    = {Yang, Mingkun and Zhu, Ran and Wang, Qing and Yang, Jie},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year      = {2026}
}
```"""


def model_card(run: TrainedRun, part: str | None, cut: Cut | None, pieces: list[ModelPiece], files: list[str]) -> str:
    """README.md of an export, in the form that model hubs read. The licence is the user's to choose."""
    data = run.config["data"]
    sections = [
        _front_matter(str(data), run.task.kind),
        f"# {run.config['model']} on {data}, {_what(part, cut)}",
        _summary(run, part, cut, pieces),
        "## Loading\n\n" + _loading(pieces, files),
        "## Accuracy\n\n" + _accuracy(run),
        "## Intended use and limits\n\n" + _limits(run),
        "## Citation\n\n" + _citations(run.method),
    ]
    return "\n\n".join(sections) + "\n"


def _front_matter(data: str, kind: str) -> str:
    pipelines = {"image": "image-classification", "text": "text-generation"}
    return f"""\
---
license:  # yours to choose; the training data may bind you
library_name: pytorch
pipeline_tag: {pipelines.get(kind, "tabular-classification")}
datasets: ["{data}"]
metrics: [accuracy]
tags: [federated-learning, split-learning, smofi]
---"""


def _what(part: str | None, cut: Cut | None) -> str:
    return "the whole model" if part is None else f"the {part}'s part, cut at {cut}"


def _summary(run: TrainedRun, part: str | None, cut: Cut | None, pieces: list[ModelPiece]) -> str:
    config, total = run.config, run.layout.size
    count = sum(p.numel() for piece in pieces for p in piece.module.parameters())
    size = f"{count:,}" if part is None else f"{count:,} of the whole model's {total:,}"
    blocks = ", ".join(name for piece in pieces for name, _ in piece.module.named_children())
    known = descriptions().get(config["data"])
    kinds = {"image": "image classification", "text": "next-character prediction"}
    rows = {
        "Task": f"{kinds.get(run.task.kind, 'classification')}, {len(run.task.classes)} classes",
        "Data": f"{config['data']}: {known}" if known else str(config["data"]),
        "Clients": f"{config['clients']}, data divided by `{config['partition']}`",
        "Method": f"`{run.method}`, `{config['optimizer']}`, {config['local_epochs']} local epochs, batches of "
        f"{config['batch_size']}, {config['participation']:.0%} of the clients a round, seed {config['seed']}",
        "Cut in training": f"`{config['cut']}`",
        "Classes": _classes(run),
        "Parameters": size,
        "Blocks": blocks,
        "Input": _input(run, pieces[0]),
        "Made with": f"smofi {smofi.__version__}",
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in rows.items())])


def _classes(run: TrainedRun) -> str:
    """What the outputs stand for, in their order."""
    names = [name.replace("|", "\\|") for name in run.task.classes]
    listed = (
        names if len(names) <= MOST_CLASSES else [*names[:MOST_CLASSES], f"... ({len(names)} in all, in about.json)"]
    )
    return ", ".join(listed)


def _input(run: TrainedRun, piece: ModelPiece) -> str:
    kind = str(piece.example.dtype).removeprefix("torch.")
    text = f"{kind} {['batch', *piece.example.shape[1:]]}"
    if run.task.mean and len(run.task.mean) <= MOST_MOMENTS:
        means, deviations = (", ".join(f"{one:.6g}" for one in some) for some in (run.task.mean, run.task.deviation))
        per = "channel" if run.task.kind == "image" else "column"
        text += f"; raw values x become (x - [{means}]) / [{deviations}], per {per}"
    return text


def _loading(pieces: list[ModelPiece], files: list[str]) -> str:
    names = " and ".join(f"`{piece.name}`" for piece in pieces)
    lines = ["```python", "import torch", ""]
    if any(name.endswith(".pt2") for name in files):
        for piece in pieces:
            shape = ", ".join(map(str, (1, *piece.example.shape[1:])))
            lines += [
                f'{piece.name} = torch.export.load("{piece.name}.pt2").module()',
                f"{piece.name}(torch.zeros({shape}{_dtype_argument(piece)}))",
            ]
    else:
        lines[1:] = ["from safetensors.torch import load_file", "", 'weights = load_file("model.safetensors")']
    lines.append("```")
    split = "" if len(pieces) == 1 else f"\n\nThe client computes twice: {names}, with the server between them."
    listed = "\n\nFiles: " + ", ".join(f"`{name}`" for name in files) + "."
    return "\n".join(lines) + split + listed


def _dtype_argument(piece: ModelPiece) -> str:
    return "" if piece.example.is_floating_point() else f", dtype={piece.example.dtype}"


def _accuracy(run: TrainedRun) -> str:
    round = run.latest.get("round")
    after = "before the first round" if round is None else f"after round {round}"
    measured = [
        f"{run.latest[key]:.2%} on {what}"
        for key, what in (("accuracy", f"the test data of {run.config['data']}"), ("validation", "validation data"))
        if run.latest.get(key) is not None
    ]
    text = f"The whole model, {after}: {', '.join(measured) or 'not measured'}."
    if run.unfinished:
        text += " The run had not finished: these are the weights of its last checkpoint."
    return text


def _limits(run: TrainedRun) -> str:
    return f"""\
Made by an experiment in split federated learning with simulated clients; meant for studying and comparing such methods.
It was measured only on the test data named above, as one number over all of it: nothing is known of single clients,
of subgroups, of other data, or of robustness to attack. Inputs must be prepared as
`{_loading_call(run)}` prepares them. Training was not differentially private: the weights may reveal
something of the training data. In split inference, activations that cross the cut may reveal something of the input."""


def _loading_call(run: TrainedRun) -> str:
    size = run.config.get("image_size")
    return f"smofi.data.load({run.config['data']!r}{f', image_size={size}' if size else ''})"


def _citations(method: str) -> str:
    names = [call.name for call in read_calls("method", method, "smofi")]
    lines = [f"- {name}: {line}" for name in names for line in _citation_of(name)]
    return "\n".join([*lines, "", CITATION] if lines else [CITATION])


def _citation_of(name: str) -> Iterable[str]:
    """What a method's docstring gives as its reference, if anything."""
    builder = METHODS.get(name)
    text = inspect.getdoc(builder) or "" if builder else ""
    _, found, reference = text.partition("Reference:\n")
    if found:
        yield " ".join(reference.split())
