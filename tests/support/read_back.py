"""What TensorBoard, Weights & Biases and MLflow find in what the trackers wrote."""

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_tensorboard(folder: Path) -> dict[str, Any]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    events = EventAccumulator(str(folder)).Reload()
    content = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    parameters = HParamsPluginData.FromString(content).session_start_info.hparams
    texts = {tag.removesuffix("/text_summary"): events.Tensors(tag) for tag in events.Tags()["tensors"]}
    return {
        "numbers": {tag: {e.step: e.value for e in events.Scalars(tag)} for tag in events.Tags()["scalars"]},
        "config": {name: getattr(value, value.WhichOneof("kind")) for name, value in parameters.items()},
        "texts": {tag: "".join(e.tensor_proto.string_val[0].decode() for e in found) for tag, found in texts.items()},
    }


def read_mlflow(uri: str, id: str) -> dict[str, Any]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    data = client.get_run(id).data
    histories = {name: client.get_metric_history(id, name) for name in data.metrics}
    return {
        "numbers": {name: {metric.step: metric.value for metric in history} for name, history in histories.items()},
        "config": data.params,
        "texts": data.tags,
    }


def read_wandb(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("run-*.wandb")
    numbers: dict[str, dict[int, float]] = {}
    config: dict[str, Any] = {}
    texts: dict[str, Any] = {}
    deadline, records = time.monotonic() + 30, list(_wandb_records(path.read_bytes()))
    while all(record.WhichOneof("record_type") != "exit" for record in records) and time.monotonic() < deadline:
        time.sleep(0.1)  # its service may still be writing
        records = list(_wandb_records(path.read_bytes()))
    for record in records:
        kind = record.WhichOneof("record_type")
        if kind == "history":
            row = {_key(item): json.loads(item.value_json) for item in record.history.item}
            for name in row.keys() - {"_step", "_timestamp", "_runtime"}:
                numbers.setdefault(name, {})[row["_step"]] = row[name]
        elif kind == "summary":
            texts |= {_key(item): json.loads(item.value_json) for item in record.summary.update}
        elif kind in ("run", "config"):
            updates = record.run.config.update if kind == "run" else record.config.update
            config |= {_key(item): json.loads(item.value_json) for item in updates}
    return {"numbers": numbers, "config": config, "texts": texts}


def _key(item: Any) -> str:
    return item.key or "/".join(item.nested_key)


def _wandb_records(content: bytes) -> Iterator[Any]:
    """The records of an offline run: LevelDB's log format, blocks of 32 KiB, behind a header of seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    at, parts = 7, b""
    while at + 7 <= len(content):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, size, kind = struct.unpack_from("<IHB", content, at)
        parts += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # the whole record, or its last part
            yield Record.FromString(parts)
            parts = b""
