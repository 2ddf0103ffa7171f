"""What an export says of itself: the model card, preprocessing.json, and the program that follows it."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import smofi
from smofi.cut import Cut
from smofi.data.catalogue import descriptions
from smofi.export.trained import ModelPiece, TrainedRun
from smofi.methods import METHODS
from smofi.spec import read_calls

PREPROCESSING = "preprocessing.json"
FORMAT = 1
"""Of preprocessing.json: increase it when a field changes its meaning."""

RUNNABLE = {"torch", "onnx"}
"""The formats that hold the computation as well as the weights."""


def preprocessing(run: TrainedRun) -> dict[str, Any]:
    """Describe what turns raw input into the model's, and outputs into classes; `raw_input` is None if unknown."""
    task, example = run.task, run.task.example(1)
    moments = {"mean": list(task.mean), "deviation": list(task.deviation)} if task.mean else None
    known: dict[str, Any] = {"raw_input": None, "resize_by_area": [], "standardise": moments}
    return {
        "format": FORMAT,
        **known,
        **(task.preparation or {}),
        "model_input": {
            "type": str(example.dtype).removeprefix("torch."),
            "shape": ["batch", *example.shape[1:]],
        },
        "classes": list(task.classes),
    }


def why_no_program(run: TrainedRun, part: str | None, formats: Sequence[str]) -> str | None:
    """Say why there cannot be a predict.py, as a clause; None if there can."""
    if part is not None:
        return "it needs the whole model"
    kind = (run.task.preparation or {}).get("raw_input", {}).get("kind")
    if kind is None:
        return "the run folder does not say how raw input was prepared"
    if kind not in KINDS:
        return f"it cannot read raw input of the kind {kind!r}"
    if not RUNNABLE & set(formats):
        return "it needs the model in the format torch or onnx"
    return None


def without_places(value: Any) -> Any:
    """Write a setting without the folders of this machine: of a path that begins at its root or home, the last part."""
    if isinstance(value, (list, tuple)):
        return [without_places(one) for one in value]
    if not isinstance(value, str):
        return value
    return re.sub(r"""(?:^|(?<=[:=(,\s"']))[/~][^,()"']*""", lambda found: Path(found[0]).name, value)


# --------------------------------------------------------------------------------------------------------------------
# Kinds of raw input: what each is, in the words of the card.

MOST_COLUMNS = 40
"""Of a table, listed in the card; all of them are in preprocessing.json."""

MOST_MOMENTS = 4
"""Channels whose mean and deviation fit into a sentence."""


def _table(raw: Mapping[str, Any]) -> str:
    return (
        f"A row of a table with {len(raw['columns'])} columns of numbers. The label was column {raw['label']!r}, which "
        "`predict.py` does not need. Missing values are not accepted; a column that was constant in training has "
        "deviation 1."
    )


def _picture(raw: Mapping[str, Any]) -> str:
    colours = {"RGB": "in colour (RGB)", "L": "in grey"}[raw["channels"]]
    size = f"{raw['width']} x {raw['height']}"
    turned = ", turned as the camera was held" if raw["upright"] else ""
    seen = f"{colours}{turned}, with transparent parts laid on {raw['transparent']}"
    if raw["middle_square"] is None:
        shaped = f"Pictures of {size} pixels, {seen}."
    else:
        shaped = f"Pictures of any size, {seen}. The square in the middle is resized to {size} (bilinear, by Pillow)."
    return f"{shaped} Values are bytes, 0 to 255."


def _sound(raw: Mapping[str, Any]) -> str:
    seconds = raw["samples"] / raw["rate"]
    rates = "of any rate, with any number of channels, mixed and resampled to" if raw.get("resample") else "at"
    return (
        f"Sound {rates} {raw['rate']:,} Hz: the middle {seconds:g} s of a clip, with silence around a shorter "
        f"one. It becomes an image of {raw['bands']} mel bands from {raw['lowest']:g} to {raw['highest']:g} Hz, with "
        f"windows of {raw['window']} samples every {raw['hop']}; the logarithm of the power is kept as a byte, from "
        f"{raw['byte_0']:g} (0) to {raw['byte_255']:g} (255)."
    )


def _text(raw: Mapping[str, Any]) -> str:
    other = f"U+{ord(raw['unknown']):04X}" if raw["unknown"] != " " else "a space"
    becomes = f"the nearest one of these, or {other}" if raw["nearest"] else other
    return (
        f"The last {raw['length']} characters of a text, as their places in an alphabet of {len(raw['alphabet'])}, "
        f"counted from 0. Any other character becomes {becomes}. "
        "The model's answer is the character that comes next."
    )


def _array(raw: Mapping[str, Any]) -> str:
    low, high = (0, 255) if raw["type"] == "uint8" else raw.get("range", (None, None))
    what = "numbers" if low is None else f"numbers from {low} to {high}"
    shape = " x ".join(map(str, raw["shape"]))
    layout = "height x width x channels" if len(raw["shape"]) == 3 else "features"
    return f"Arrays of {what}, each sample {shape} ({layout})."


@dataclass(frozen=True)
class Kind:
    """Describe a kind of raw input: its words in the card, an example for predict.py, the task on model hubs."""

    describe: Callable[[Mapping[str, Any]], str]
    example: str
    pipeline: str | None = None


KINDS = {
    "table": Kind(_table, "rows.csv", "tabular-classification"),
    "picture": Kind(_picture, "photo.png", "image-classification"),
    "sound": Kind(_sound, "clip.wav", "audio-classification"),
    "text": Kind(_text, '--text "To be, or not to b"', "text-generation"),
    "array": Kind(_array, "samples.npz"),
}


def _describe_input(facts: Mapping[str, Any]) -> str:
    """Tell people how raw input becomes the model's; `facts` is the content of preprocessing.json."""
    raw, moments = facts["raw_input"], facts["standardise"]
    lines = []
    if raw is None:
        lines.append(
            f"How raw input was prepared is not known in full: the run folder does not say it. `{PREPROCESSING}` holds "
            "what is known."
        )
    elif raw["kind"] in KINDS:
        lines.append(KINDS[raw["kind"]].describe(raw))
    lines += [
        f"Images are then resized to {side} x {side}: each value is the mean of the area that falls on it."
        for side in facts["resize_by_area"]
    ]
    if moments is not None:
        lines.append(_standardised(raw, moments, "channel" if len(facts["model_input"]["shape"]) == 4 else "column"))
    elif raw is not None and raw["kind"] != "text":
        lines.append("Values go into the model as they are.")
    if raw is not None:
        lines.append(f"`{PREPROCESSING}` holds all of this in full, for programs.")
    return "\n\n".join(lines)


def _standardised(raw: Mapping[str, Any] | None, moments: Mapping[str, Sequence[float]], each: str) -> str:
    """Write mean and deviation of `each`, as a table where columns have names."""
    mean, deviation = moments["mean"], moments["deviation"]
    columns = raw.get("columns") if raw else None
    if columns is not None and len(columns) <= MOST_COLUMNS:
        head = "Each value x becomes (x - mean) / deviation; the columns in the model's order:\n\n"
        names = [name.replace("|", "\\|").replace("\n", " ") for name in columns]
        rows = [f"| {name} | {a:.6g} | {b:.6g} |" for name, a, b in zip(names, mean, deviation, strict=True)]
        return head + "\n".join(["| column | mean | deviation |", "|---|---|---|", *rows])
    if len(mean) <= MOST_MOMENTS:
        means, deviations = (", ".join(f"{one:.6g}" for one in some) for some in (mean, deviation))
        per = "" if len(mean) == 1 else f", by {each}"
        return f"Each value x becomes (x - mean) / deviation; mean {means}, deviation {deviations}{per}."
    return "Each value x becomes (x - mean) / deviation, with a mean and a deviation for each column."


# --------------------------------------------------------------------------------------------------------------------
# The model card: what the model is, how it came about, how to load it, and what it is not good for.

MOST_CLASSES = 100

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
    """Write README.md of an export, in the form that model hubs read. The licence is the user's to choose.

    `missing` is why there is no predict.py among the files, as a clause; None if there is.
    """
    data, facts = without_places(run.config["data"]), preprocessing(run)
    sections = [
        _front_matter(data, facts),
        f"# {run.config['model']} on {data}, " + (f"the {part}'s part, cut at {cut}" if part else "the whole model"),
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
    by_shape = "image-classification" if len(facts["model_input"]["shape"]) == 4 else "tabular-classification"
    pipeline = (KINDS[kind].pipeline if kind in KINDS else None) or by_shape
    return f"""\
---
license:  # yours to choose; the training data may bind you
library_name: pytorch
pipeline_tag: {pipeline}
datasets: [{json.dumps(data, ensure_ascii=False)}]
metrics: [accuracy]
tags: [federated-learning, split-learning, smofi]
---"""


def _summary(run: TrainedRun, part: str | None, pieces: list[ModelPiece]) -> str:
    config = {key: without_places(value) for key, value in run.config.items()}
    epochs, names = config["local_epochs"], [name.replace("|", "\\|") for name in run.task.classes]
    if len(names) > MOST_CLASSES:
        names = [*names[:MOST_CLASSES], f"... ({len(names)} in all, in {PREPROCESSING})"]
    count = sum(p.numel() for piece in pieces for p in piece.module.parameters())
    whole = "" if part is None else f" of the whole model's {run.layout.size:,}"
    blocks = ", ".join(name for piece in pieces for name, _ in piece.module.named_children())
    known = descriptions().get(config["data"])
    kinds = {"image": "image classification", "text": "next-character prediction"}
    rows = {
        "Task": f"{kinds.get(run.task.kind, 'classification')}, {len(run.task.classes)} classes",
        "Data": f"{config['data']}: {known}" if known else str(config["data"]),
        "Clients": f"{config['clients']}, data divided by `{config['partition']}`",
        "Method": f"`{run.method}`, `{config['optimizer']}`, {epochs} local epoch{'s' * (epochs > 1)}, batches of "
        f"{config['batch_size']}, {config['participation']:.0%} of the clients in each round, seed {config['seed']}",
        "Cut in training": f"`{config['cut']}`",
        "Classes": ", ".join(names),
        "Parameters": f"{count:,}{whole}",
        "Blocks": blocks,
        "Takes": ", then ".join(_tensor(piece) for piece in pieces),
        "Made with": f"smofi {smofi.__version__}",
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in rows.items())])


def _tensor(piece: ModelPiece) -> str:
    kind = str(piece.example.dtype).removeprefix("torch.")
    return f"{kind} [{', '.join(map(str, ('batch', *piece.example.shape[1:])))}]"


def _input(part: str | None, facts: dict[str, Any], missing: str | None) -> str:
    """Say what to feed it: for a part, first what that is to the whole."""
    if part == "server":
        return (
            "This part takes what the client's part computes. That part's own input is described by "
            f"`{PREPROCESSING}`. To go from raw input to classes in one step, export the whole model: it comes with "
            "`predict.py`."
        )
    if part == "client":
        about = (
            "This part takes prepared input, and gives what the server's part takes. There is no `predict.py`: it "
            "comes with an export of the whole model."
        )
    elif missing is not None:
        about = f"There is no `predict.py`, which would answer for raw input: {missing}."
    else:
        kind = facts["raw_input"]["kind"]
        about = (
            "`predict.py` reads raw input and prints a line of CSV per sample: the most likely class and its "
            f"probability. It needs numpy{', pillow' if kind == 'picture' else ''}, and onnxruntime or torch; smofi is "
            f"not needed.\n\n```\npython predict.py {KINDS[kind].example}\npython predict.py --help\n```"
        )
    return f"{about}\n\n{_describe_input(facts)}"


def _loading(part: str | None, pieces: list[ModelPiece], files: list[str]) -> str:
    """Show how to load each format that was written."""
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
    """List what the docstrings of the methods give as references, and the paper."""
    lines = []
    for call in read_calls("method", method, "smofi"):
        builder = METHODS.get(call.name)
        _, found, reference = (inspect.getdoc(builder) or "" if builder else "").partition("Reference:\n")
        lines += [f"- {call.name}: {' '.join(reference.split())}"] if found else []
    return "\n".join([*lines, "", CITATION] if lines else [CITATION])
