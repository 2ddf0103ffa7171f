"""A message as bytes: a small header, then tensors as they are in memory.

    magic  version  header's length    header    zeros    tensor    zeros    tensor ...
    4      4        4 bytes            JSON      to 64              to 64

All numbers are little-endian, and every tensor starts at a multiple of 64 bytes. Nothing else may be in a message, and
where tensors start is not said but follows from their types and shapes. `read` checks all of this before any memory
is taken for a tensor. A tensor arrives with the strides that it was sent with, since the last bits of a convolution
depend on them.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smofi.engine.cohort.wire import COMPRESSIONS, Compression
from smofi.net.header import (
    DTYPES,
    LONGEST_HEADER,
    MOST_DIMENSIONS,
    BadFrame,
    Listed,
    read_header,
    reject,
    write_header,
)

__all__ = ["BadFrame", "Frame", "Parsed", "TensorHeader", "encode", "parts_of", "read"]

if sys.byteorder != "little":
    raise ImportError("smofi's messages need a machine that stores numbers with their lowest byte first")

MAGIC, VERSION, ALIGNED = b"SMOF", 1, 64
_START = struct.Struct("<4sII")
_NAMES = {getattr(torch, name): name for name in DTYPES}

Buffer = bytes | bytearray | memoryview
Value = int | float | str | bool | None | list[Any]


@dataclass(frozen=True)
class Frame:
    """A message: a kind, small values, and tensors on the CPU."""

    kind: str
    fields: dict[str, Value] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class TensorHeader:
    """What a message says about a tensor: its type and shape once unpacked, and the bytes that are sent of it."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    order: tuple[int, ...]
    packing: str | None

    @property
    def parts(self) -> tuple[tuple[torch.dtype, tuple[int, ...]], ...]:
        """The type and the shape of each piece that is sent."""
        return COMPRESSIONS[self.packing].parts(self.shape) if self.packing else ((self.dtype, self.shape),)

    @property
    def bytes(self) -> int:
        """The bytes of all pieces."""
        return sum(_size(*part) for part in self.parts)


@dataclass(frozen=True)
class Parsed:
    """A message whose header is checked, and whose tensors are still bytes."""

    kind: str
    fields: dict[str, Value]
    tensors: dict[str, TensorHeader]
    _payload: memoryview
    _starts: dict[str, list[int]]
    _shared: bool = False

    def take(self, name: str) -> Tensor:
        """A tensor of the message. It takes memory of its own, unless the payload's is shared: up to eight times the
        bytes that were sent, if it was packed. So check its type and shape in `tensors` before you take it.
        """
        if name not in self.tensors:
            raise BadFrame(f"tensors.{name}", "is missing")
        header, natural = self.tensors[name], range(MOST_DIMENSIONS)
        taken: list[Tensor] = []
        for start, (dtype, shape) in zip(self._starts[name], header.parts, strict=True):
            order = natural[: len(shape)] if taken else header.order
            stored = self._payload[start : start + _size(dtype, shape)]
            taken.append(_taken(name, stored, dtype, shape, order, self._shared))
        return COMPRESSIONS[header.packing].unpack(tuple(taken), header.dtype) if header.packing else taken[0]


def encode(frame: Frame, packed: Mapping[str, Compression | None] | None = None) -> bytes:
    """A message as bytes; `packed` says which tensors are sent with fewer bits.

    >>> message = encode(Frame("activation", {"step": 3}, {"x": torch.ones(2, 5)}))
    >>> read(message).fields["step"], read(message).take("x").sum()
    (3, tensor(10.))
    """
    return b"".join(parts_of(frame, packed))


def parts_of(frame: Frame, packed: Mapping[str, Compression | None] | None = None) -> list[Buffer]:
    """The same, as parts to be joined: those of tensors are their own memory, not copied."""
    packed = packed or {}
    if unknown := packed.keys() - frame.tensors.keys():
        raise BadFrame(f"tensors.{min(unknown)}", "is missing, and cannot be packed")
    listed: list[Listed] = []
    pieces: list[memoryview] = []
    for name, tensor in frame.tensors.items():
        compression = packed.get(name)
        _check_sent(name, tensor, compression)
        first, *others = compression.pack(tensor) if compression else (tensor.detach(),)
        order, memory = _in_memory(first)
        packing = compression.name if compression else None
        listed.append((name, _NAMES[tensor.dtype], tuple(tensor.shape), order, packing))
        pieces += [memory, *(_in_memory(one)[1] for one in others)]
    header = write_header(frame.kind, frame.fields, listed)
    parts: list[Buffer] = [_START.pack(MAGIC, VERSION, len(header)) + header]
    end = len(parts[0])
    for piece in pieces:
        parts += [bytes(-end % ALIGNED), piece]
        end += -end % ALIGNED + piece.nbytes
    return parts


def read(payload: Buffer, shared: bool = False) -> Parsed:
    """A message from bytes that anyone may have sent; whatever is wrong with them is a `BadFrame`.

    With `shared`, tensors use the payload's own memory where it suits them: then no other program part may write to it.

    >>> read(b"GET / HTTP/1.1\\r\\n")
    Traceback (most recent call last):
    smofi.net.header.BadFrame: magic is b'GET ': expected b'SMOF'
    """
    view = memoryview(payload).cast("B")
    if len(view) < _START.size:
        raise BadFrame("length", f"is {len(view)}: expected at least {_START.size} bytes")
    magic, version, length = _START.unpack_from(view)
    if magic != MAGIC:
        reject("magic", magic, repr(MAGIC))
    if version != VERSION:
        reject("version", version, f"{VERSION}, the protocol of this side")
    end: int = _START.size + length
    if length > LONGEST_HEADER or end > len(view):
        reject("header length", length, f"at most {min(LONGEST_HEADER, len(view) - _START.size)} bytes")
    kind, fields, listed = read_header(bytes(view[_START.size : end]))
    tensors, starts = {}, {}
    for name, dtype, shape, order, packing in listed:
        tensors[name] = header = TensorHeader(getattr(torch, dtype), shape, order, packing)
        starts[name], end = _places(name, header, view, end)
    if end < len(view):
        raise BadFrame("length", f"is {len(view)}: expected {end} bytes by what the header lists")
    return Parsed(kind, fields, tensors, view, starts, shared and not view.readonly)


def _places(name: str, header: TensorHeader, view: memoryview, end: int) -> tuple[list[int], int]:
    """Where the pieces of a tensor start, and where the last one ends."""
    starts = []
    for part in header.parts:
        start = end + -end % ALIGNED
        if start + _size(*part) > len(view):
            needs = f"needs {_size(*part)} bytes from byte {start} on: the message has {len(view)} in all"
            raise BadFrame(f"tensors.{name}", needs)
        if any(view[end:start]):
            raise BadFrame(f"tensors.{name}", "has other bytes than zeros before it")
        starts.append(start)
        end = start + _size(*part)
    return starts, end


def _size(dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * dtype.itemsize


# ------------------------------------------------------------------------------------------------- memory of tensors


def _check_sent(name: str, tensor: Tensor, compression: Compression | None) -> None:
    if tensor.dtype not in _NAMES:
        reject(f"tensors.{name}.dtype", tensor.dtype, "one of " + ", ".join(DTYPES))
    if tensor.layout is not torch.strided or tensor.device.type != "cpu":
        raise BadFrame(f"tensors.{name}", f"is {tensor.layout} on {tensor.device}: expected a dense tensor on the CPU")
    if compression and COMPRESSIONS.get(compression.name) != compression:
        reject(f"tensors.{name}.packing", compression.name, "one of " + ", ".join(COMPRESSIONS))
    if compression and not tensor.is_floating_point():
        reject(f"tensors.{name}.dtype", tensor.dtype, "a floating-point type, for a tensor that is packed")


def _in_memory(tensor: Tensor) -> tuple[tuple[int, ...], memoryview]:
    """The order of a tensor's dimensions in memory, outermost first, and its bytes in that order: not copied, unless
    the tensor has gaps or shows a number twice."""
    shape, strides = tensor.shape, tensor.stride()
    # of two equal strides one is of a dimension of size 1, which is the inner one: so strides follow from the order
    order = tuple(sorted(range(len(shape)), key=lambda i: (-strides[i], -shape[i])))
    laid = tensor.permute(order)
    if not laid.is_contiguous():
        order, laid = tuple(range(len(shape))), tensor.contiguous()
    return order, laid.reshape(-1).view(torch.uint8).numpy().data


def _taken(
    name: str, stored: memoryview, dtype: torch.dtype, shape: tuple[int, ...], order: Sequence[int], shared: bool
) -> Tensor:
    """A tensor from the bytes of its memory: these themselves, if they are shared and begin where a tensor would."""
    sent = np.frombuffer(stored, np.uint8)
    if dtype is torch.bool and sent.size and sent.max() > 1:
        raise BadFrame(f"tensors.{name}", "has other bytes than 0 and 1: expected those of a bool tensor")
    laid = [shape[i] for i in order]
    if shared and sent.size and sent.ctypes.data % ALIGNED == 0:
        taken = torch.from_numpy(sent).view(dtype).view(laid)
    else:
        taken = torch.empty(laid, dtype=dtype)
        np.copyto(taken.view(-1).view(torch.uint8).numpy(), sent)
    return taken.permute(sorted(range(len(order)), key=order.__getitem__))
