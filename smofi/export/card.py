"""The model card: what the model is, how it came about, how to load it, and what it is not good for."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from typing import Any

import smofi
from smofi.cut import Cut
from smofi.data.catalogue import descriptions
from smofi.export.described import describe_input, describe_program
from smofi.export.pieces import ModelPiece
from smofi.export.raw import PREPROCESSING, preprocessing, without_places
from smofi.export.trained import TrainedRun
from smofi.methods import METHODS
from smofi.spec import read_calls

MOST_CLASSES = 100
PIPELINES = {
    "table": "tabular-classification",
    "picture": "image-classification",
    "sound": "audio-classification",
    "text": "text-generation",
}

LIMITS = """\
Made by an experiment in split federated learning with simulated clients; meant for studying and comparing such methods.
It was measured only on the test data named above, as one number over all of it: nothing is known about single clients,
subgroups, other data, or robustness to attack. Training was not differentially private: the weights may reveal
something about the training data. In split inference, activations that cross the cut may reveal something about the
input."""

CITATION = """\
```bibtex
@inproceedings{yang2026smofi,
  title     = {{SMoFi}: Step-wise Momentum Fusion for Split Federated Learning on Heterogeneous Data},
  author    = {Yang, Mingkun and Zhu, Ran and Wang, Qing and Yang, Jie},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year      = {2026}
}
```"""


def model_card(
    run: TrainedRun, part: str | None, cut: Cut | None, pieces: list[ModelPiece], files: list[str], missing: str | None
) -> str:
    """README.md of an export, in the form that model hubs read. The licence is the user's to choose.

    `missing` is why there is no predict.py among the files, as a clause; None if there is.
    """
    data, facts = without_places(run.config["data"]), preprocessing(run)
    sections = [
        _front_matter(data, facts),
        f"# {run.config['model']} on {data}, {_what(part, cut)}",
        _summary(run, part, pieces),
        "## Input\n\n" + _input(part, facts, missing),
        "## Loading\n\n" + _loading(part, pieces, files),
        "## Accuracy\n\n" + _accuracy(run),
        "## Intended use and limits\n\n" + LIMITS,
        "## Citation\n\n" + _citations(run.method),
    ]
    return "\n\n".join(sections) + "\n"


def _front_matter(data: str, facts: dict[str, Any]) -> str:
    kind = (facts["raw_input"] or {}).get("kind")
    if kind in PIPELINES:
        pipeline = PIPELINES[kind]
    else:
        pipeline = "image-classification" if len(facts["model_input"]["shape"]) == 4 else "tabular-classification"
    return f"""\
---
license:  # yours to choose; the training data may bind you
library_name: pytorch
pipeline_tag: {pipeline}
datasets: [{json.dumps(data, ensure_ascii=False)}]
metrics: [accuracy]
tags: [federated-learning, split-learning, smofi]
---"""


def _what(part: str | None, cut: Cut | None) -> str:
    return "the whole model" if part is None else f"the {part}'s part, cut at {cut}"


def _summary(run: TrainedRun, part: str | None, pieces: list[ModelPiece]) -> str:
    config, total = {key: without_places(value) for key, value in run.config.items()}, run.layout.size
    count = sum(p.numel() for piece in pieces for p in piece.module.parameters())
    size = f"{count:,}" if part is None else f"{count:,} of the whole model's {total:,}"
    blocks = ", ".join(name for piece in pieces for name, _ in piece.module.named_children())
    known = descriptions().get(config["data"])
    kinds = {"image": "image classification", "text": "next-character prediction"}
    rows = {
        "Task": f"{kinds.get(run.task.kind, 'classification')}, {len(run.task.classes)} classes",
        "Data": f"{config['data']}: {known}" if known else str(config["data"]),
        "Clients": f"{config['clients']}, data divided by `{config['partition']}`",
        "Method": f"`{run.method}`, `{config['optimizer']}`, {_local(config['local_epochs'])}, batches of "
        f"{config['batch_size']}, {config['participation']:.0%} of the clients in each round, seed {config['seed']}",
        "Cut in training": f"`{config['cut']}`",
        "Classes": _classes(run),
        "Parameters": size,
        "Blocks": blocks,
        "Takes": ", then ".join(_tensor(piece) for piece in pieces),
        "Made with": f"smofi {smofi.__version__}",
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in rows.items())])


def _local(epochs: int) -> str:
    return f"{epochs} local epoch{'s' if epochs > 1 else ''}"


def _classes(run: TrainedRun) -> str:
    """What the outputs stand for, in their order."""
    names = [name.replace("|", "\\|") for name in run.task.classes]
    more = f"... ({len(names)} in all, in {PREPROCESSING})"
    return ", ".join(names if len(names) <= MOST_CLASSES else [*names[:MOST_CLASSES], more])


def _tensor(piece: ModelPiece) -> str:
    kind = str(piece.example.dtype).removeprefix("torch.")
    return f"{kind} [{', '.join(map(str, ('batch', *piece.example.shape[1:])))}]"


def _input(part: str | None, facts: dict[str, Any], missing: str | None) -> str:
    """What to feed it: for a part, first what that is to the whole."""
    if part is None:
        return f"{describe_program(facts, missing)}\n\n{describe_input(facts)}"
    if part == "server":
        about = (
            f"This part takes what the client's part computes. That part's own input is described by `{PREPROCESSING}`."
        )
        return (
            f"{about} To go from raw input to classes in one step, export the whole model: it comes with `predict.py`."
        )
    about = "This part takes prepared input, and gives what the server's part takes. There is no `predict.py`: it comes"
    return f"{about} with an export of the whole model.\n\n{describe_input(facts)}"


def _loading(part: str | None, pieces: list[ModelPiece], files: list[str]) -> str:
    """How to load each format that was written."""
    blocks = []
    if any(name.endswith(".pt2") for name in files):
        lines = ["import torch", ""]
        for piece in pieces:
            shape = ", ".join(map(str, (1, *piece.example.shape[1:])))
            lines += [
                f'{piece.name} = torch.export.load("{piece.name}.pt2").module()',
                f"{piece.name}(torch.zeros({shape}, dtype={piece.example.dtype}))",
            ]
        blocks.append("With torch:\n\n" + _python(lines))
    if any(name.endswith(".onnx") for name in files):
        lines = ["import numpy", "import onnxruntime", ""]
        for piece in pieces:
            kind = str(piece.example.dtype).removeprefix("torch.")
            lines += [
                f'{piece.name} = onnxruntime.InferenceSession("{piece.name}.onnx")',
                f'{piece.name}.run(["output"], {{"input": numpy.zeros({(1, *piece.example.shape[1:])}, "{kind}")}})',
            ]
        blocks.append("With ONNX Runtime:\n\n" + _python(lines))
    if any(name.endswith(".safetensors") for name in files):
        lines = ["from safetensors.torch import load_file", "", 'weights = load_file("model.safetensors")']
        blocks.append("The weights alone, by name:\n\n" + _python(lines))
    if part == "client" and len(pieces) > 1:
        blocks.append("The client computes twice: `front`, and, on what the server's part makes of that, `back`.")
    return "\n\n".join([*blocks, "Files: " + ", ".join(f"`{name}`" for name in files) + "."])


def _python(lines: list[str]) -> str:
    return "\n".join(["```python", *lines, "```"])


def _accuracy(run: TrainedRun) -> str:
    round = run.latest.get("round")
    after = "before the first round" if round is None else f"after round {round}"
    measured = [
        f"{run.latest[key]:.2%} on {what}"
        for key, what in (
            ("accuracy", f"the test data of {without_places(run.config['data'])}"),
            ("validation", "validation data"),
        )
        if run.latest.get(key) is not None
    ]
    text = f"The whole model, {after}: {', '.join(measured) or 'not measured'}."
    if run.unfinished:
        text += " The run had not finished: these are the weights of its last checkpoint."
    return text


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
