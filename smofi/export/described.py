"""The model card's words about raw input: what it is, how it is prepared, how predict.py reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smofi.export.raw import PREPROCESSING

MOST_COLUMNS = 40
"""Of a table, listed in the card; all of them are in preprocessing.json."""

MOST_MOMENTS = 4
"""Channels whose mean and deviation fit into a sentence."""

EXAMPLES = {
    "table": "rows.csv",
    "picture": "photo.png",
    "sound": "clip.wav",
    "text": '--text "To be, or not to b"',
    "array": "samples.npz",
}
"""What predict.py might be given."""


def describe_input(facts: Mapping[str, Any]) -> str:
    """How raw input becomes the model's, for people; `facts` is the content of preprocessing.json."""
    raw, moments = facts["raw_input"], facts["standardise"]
    lines = []
    if raw is None:
        lines.append(
            f"How raw input was prepared is not known in full: the run folder does not say it. `{PREPROCESSING}` holds "
            "what is known."
        )
    elif raw["kind"] in DESCRIPTIONS:
        lines.append(DESCRIPTIONS[raw["kind"]](raw))
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


def describe_program(facts: Mapping[str, Any], missing: str | None) -> str:
    """How to run predict.py, or why it is not there."""
    if missing is not None:
        return f"There is no `predict.py`, which would answer for raw input: {missing}."
    kind = facts["raw_input"]["kind"]
    return (
        "`predict.py` reads raw input and prints a line of CSV per sample: the most likely class and its probability. "
        f"It needs numpy{', pillow' if kind == 'picture' else ''}, and onnxruntime or torch; smofi is not needed.\n\n"
        f"```\npython predict.py {EXAMPLES.get(kind, 'FILE')}\npython predict.py --help\n```"
    )


def _standardised(raw: Mapping[str, Any] | None, moments: Mapping[str, Sequence[float]], each: str) -> str:
    """Mean and deviation of `each`, as a table where columns have names."""
    mean, deviation = moments["mean"], moments["deviation"]
    columns = raw.get("columns") if raw else None
    if columns is not None and len(columns) <= MOST_COLUMNS:
        head = "Each value x becomes (x - mean) / deviation; the columns in the model's order:\n\n"
        rows = [f"| {_cell(name)} | {a:.6g} | {b:.6g} |" for name, a, b in zip(columns, mean, deviation, strict=True)]
        return head + "\n".join(["| column | mean | deviation |", "|---|---|---|", *rows])
    if len(mean) <= MOST_MOMENTS:
        means, deviations = (", ".join(f"{one:.6g}" for one in some) for some in (mean, deviation))
        per = "" if len(mean) == 1 else f", by {each}"
        return f"Each value x becomes (x - mean) / deviation; mean {means}, deviation {deviations}{per}."
    return "Each value x becomes (x - mean) / deviation, with a mean and a deviation for each column."


def _cell(name: str) -> str:
    return name.replace("|", "\\|").replace("\n", " ")


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


DESCRIPTIONS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "table": _table,
    "picture": _picture,
    "sound": _sound,
    "text": _text,
    "array": _array,
}
