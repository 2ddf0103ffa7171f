"""Classify raw input with the model in this folder: python predict.py FILE [FILE ...]

Each input is prepared as preprocessing.json says. This needs numpy, and onnxruntime for model.onnx or torch for
model.pt2; pictures need pillow. The answer is CSV: a line per input, with the most likely class and its probability.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.util
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

try:
    import numpy as np
except ImportError:
    sys.exit("predict.py needs numpy: pip install numpy")

HERE = Path(__file__).resolve().parent
AT_ONCE = 256
RUNTIMES = {"onnx": ("onnxruntime", "model.onnx"), "torch": ("torch", "model.pt2")}
PIP_NAMES = {"PIL": "pillow"}


def main(arguments: Sequence[str] | None = None, folder: Path = HERE) -> None:
    """Answer what the command line asks; a mistake in it, or in a file, is one sentence."""
    try:
        path = folder / "preprocessing.json"
        try:
            facts: Any = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: expected JSON, but it is damaged ({error})") from error
        reader = _reader(facts["raw_input"]["kind"], folder)
        asked = _parser(reader).parse_args(arguments)
        samples = reader.read(_files(asked.inputs, reader.ENDINGS), facts["raw_input"])
        if texts := getattr(asked, "text", None):
            samples = itertools.chain(samples, reader.from_words(texts, facts["raw_input"]))
        elif not asked.inputs:
            raise ValueError("there is nothing to classify; python predict.py --help says what it takes")
        write(sys.stdout, answers(samples, facts, load(folder, asked.runtime)), facts["classes"], asked.all)
        sys.stdout.flush()
    except ModuleNotFoundError as error:
        sys.exit(f"predict.py needs {error.name}: pip install {PIP_NAMES.get(str(error.name), error.name)}")
    except BrokenPipeError:  # whoever reads the answers has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        sys.exit(f"predict.py: {error.filename}: {error.strerror}" if error.filename else f"predict.py: {error}")
    except ValueError as error:
        sys.exit(f"predict.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # raw input was checked as it was read: what is left are the files of this folder
        why = f"{type(error).__name__}: {str(error)[:200]}"
        sys.exit(f"predict.py: preprocessing.json is damaged, or does not fit the model beside it ({why})")


def answers(
    samples: Iterable[tuple[str, Any]], facts: dict[str, Any], model: Callable[[Any], Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the name of each sample and the probabilities of all classes."""
    samples = iter(samples)
    while some := list(itertools.islice(samples, AT_ONCE)):
        outputs = model(np.stack([prepare(sample, facts) for _, sample in some])).astype(np.float64)
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        yield from zip((name for name, _ in some), powers / powers.sum(axis=1, keepdims=True), strict=True)


def prepare(sample: Any, facts: dict[str, Any]) -> Any:
    """Make of a sample what the model sees: resized, brought to mean 0 and deviation 1, channels first."""
    for side in facts["resize_by_area"]:
        sample = by_area(sample, side)
    prepared = sample.astype(facts["model_input"]["type"])
    if facts["standardise"] is not None:
        mean, deviation = (np.array(facts["standardise"][name], np.float32) for name in ("mean", "deviation"))
        prepared = (prepared - mean) / deviation
    prepared = prepared.transpose(2, 0, 1) if prepared.ndim == 3 else prepared
    expected = facts["model_input"]["shape"][1:]
    if list(prepared.shape) != expected:
        raise ValueError(f"the model takes inputs of shape {expected}, but preparation gave {list(prepared.shape)}")
    return prepared


def by_area(image: Any, side: int) -> Any:
    """Resize an image [height, width, channels] to a square: each value is the mean of what falls on it."""
    sums, counts = image.astype(np.float64), np.ones((1, 1, 1))
    for axis in (0, 1):
        size = image.shape[axis]
        begins, ends = np.arange(side) * size // side, -(-np.arange(1, side + 1) * size // side)
        before = np.cumsum(np.concatenate([np.zeros_like(sums.take([0], axis)), sums], axis), axis)
        sums = before.take(ends, axis) - before.take(begins, axis)
        counts = counts * np.expand_dims(ends - begins, (2, 1 - axis))
    means = sums / counts
    return (means.round() if image.dtype == np.uint8 else means).astype(image.dtype)


def load(folder: Path, runtime: str | None = None) -> Callable[[Any], Any]:
    """Load the model, as a function from inputs to outputs; by ONNX Runtime if it can be, or else by torch."""
    there = {name: package for name, (package, file) in RUNTIMES.items() if (folder / file).is_file()}
    if runtime is not None and runtime not in there:
        raise ValueError(f"--runtime {runtime} needs {RUNTIMES[runtime][1]}, which is not in {folder}")
    usable = [name for name, package in there.items() if importlib.util.find_spec(package) is not None]
    chosen = runtime or next(iter(usable), None)
    if not there:
        raise ValueError(f"expected model.onnx or model.pt2 in {folder}, but there is neither")
    if chosen is None:
        needed = " or ".join(f"{package} (for {RUNTIMES[name][1]})" for name, package in there.items())
        raise ValueError(f"{needed} is not installed: pip install {next(iter(there.values()))}")
    path = folder / RUNTIMES[chosen][1]
    try:
        if chosen == "onnx":
            onnxruntime: Any = importlib.import_module("onnxruntime")
            session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            return lambda inputs: session.run(["output"], {"input": inputs})[0]
        torch: Any = importlib.import_module("torch")
        module = torch.export.load(path).module()
        compute: Callable[[Any], Any] = torch.no_grad()(lambda inputs: module(torch.from_numpy(inputs)).numpy())
        return compute
    except ModuleNotFoundError:
        raise
    except Exception as error:  # of the runtime's own kinds
        raise ValueError(f"{path} cannot be loaded by {RUNTIMES[chosen][0]} ({str(error)[:200]})") from error


def write(file: Any, results: Iterable[tuple[str, Any]], classes: Sequence[str], every: bool) -> None:
    """Write the answers as CSV; with `every`, a column for each class."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["input", "class", "probability", *(classes if every else ())])
    for name, probabilities in results:
        best = int(probabilities.argmax())
        shown = [probabilities[best], *(probabilities if every else ())]
        writer.writerow([name, classes[best], *(f"{one:.6f}" for one in shown)])


def _reader(kind: str, folder: Path) -> Any:
    """Load the module beside this one that reads raw input of this kind."""
    spec = importlib.util.spec_from_file_location(f"read_{kind}", folder / f"read_{kind}.py")
    if spec is None or spec.loader is None:
        raise ValueError(f"read_{kind}.py is missing beside predict.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _files(inputs: Iterable[str], endings: tuple[str, ...]) -> list[str]:
    """List the files that are named, and files in folders that are named, if they end like this."""
    found: list[str] = []
    for name in inputs:
        if not Path(name).is_dir():
            found.append(name)
        elif inside := sorted(str(one) for one in Path(name).rglob("*") if one.name.lower().endswith(endings)):
            found += inside
        else:
            raise ValueError(f"{name}: expected files that end with {', '.join(endings)}, but there are none")
    return found


def _parser(reader: Any) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="predict.py",
        description="Classify raw input with the model in this folder. " + reader.TAKES,
        epilog="The answer is CSV: a line per input, with the most likely class and its probability. "
        "preprocessing.json says how inputs are prepared. It needs numpy, and onnxruntime or torch; "
        "pictures need pillow.",
    )
    parser.add_argument("inputs", nargs="*", metavar="FILE", help=f"{', '.join(reader.ENDINGS)}, or a folder of these")
    if hasattr(reader, "from_words"):
        parser.add_argument("--text", action="append", metavar="WORDS", help="a text itself, rather than a file")
    parser.add_argument("--all", action="store_true", help="add a column with the probability of every class")
    parser.add_argument("--runtime", choices=RUNTIMES, help="how the model is run; by default, whatever is installed")
    return parser


if __name__ == "__main__":
    main()
