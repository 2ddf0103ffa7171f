"""Files damaged at random, in ways that readers find hard: bytes flipped, cut, repeated, or numbers made enormous."""

from __future__ import annotations

import gzip
import io
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable

Damage = Callable[[bytes, random.Random], bytes]

ENORMOUS = (b"9" * 400, b"9" * 5000, b"1e999", b"-1", b"0", b"nan", b"2147483648", b"18446744073709551616")
ODD = (b"\x00", b"\xff", b'"', b"\n", b"\r", b",", b"[", b"{", b"\\u", "é中".encode(), b"\xed\xa0\x80", b"9" * 99)


def mutated(content: bytes, draw: random.Random) -> bytes:
    """The same with one to four damages."""
    for _ in range(draw.randint(1, 4)):
        content = draw.choice(DAMAGES)(content, draw)
    return content


def _flipped(content: bytes, draw: random.Random) -> bytes:
    at, changed = draw.randrange(len(content) + 1), bytearray(content or b"\0")
    changed[at % len(changed)] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _overwritten(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    number = draw.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, draw.getrandbits(32)))
    new = struct.pack(draw.choice("<>") + "I", number)[: draw.choice((1, 2, 4))]
    return content[:at] + new + content[at + len(new) :]


def _cut(content: bytes, draw: random.Random) -> bytes:
    at, end = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    return draw.choice((content[:at], content[:at] + content[end:], content[at:]))


def _repeated(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    piece = content[at : at + draw.choice((1, 10, 1000))]
    return content[:at] + piece * draw.choice((2, 3, 100)) + content[at:]


def _inserted(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.choice(ODD) + content[at:]


def _enormous(content: bytes, draw: random.Random) -> bytes:
    """One of its numbers, as text has them, replaced."""
    found = list(re.finditer(rb"[0-9]+", content[:100_000]))
    if not found:
        return content
    number = draw.choice(found)
    return content[: number.start()] + draw.choice(ENORMOUS) + content[number.end() :]


DAMAGES: tuple[Damage, ...] = (_flipped, _overwritten, _cut, _repeated, _inserted, _enormous)


def inside_gzip(content: bytes, draw: random.Random) -> bytes:
    """What is packed damaged, or the packed file, or both."""
    if draw.random() < 0.6:
        content = gzip.compress(mutated(gzip.decompress(content), draw), 1, mtime=0)
    return mutated(content, draw) if draw.random() < 0.5 else content


def inside_zip(content: bytes, draw: random.Random) -> bytes:
    """One member damaged, with its checksum as it should be; or the file itself."""
    if draw.random() < 0.4:
        return mutated(content, draw)
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        chosen = draw.choice(old.namelist())
        for name in old.namelist():
            member = old.read(name)
            if name == chosen:  # most often within the header
                member = mutated(member[:128], draw) + member[128:] if draw.random() < 0.7 else mutated(member, draw)
            new.writestr(name, member)
    return packed.getvalue()


def inside_png(content: bytes, draw: random.Random) -> bytes:
    """One chunk damaged, with its checksum as it should be; or the file itself."""
    if draw.random() < 0.4:
        return mutated(content, draw)
    chunks, at = [], 8
    while at < len(content):
        (length,) = struct.unpack_from(">I", content, at)
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + length]))
        at += 12 + length
    which = draw.randrange(len(chunks))
    kind, data = chunks[which]
    if kind == b"IDAT" and draw.random() < 0.5:
        data = zlib.compress(mutated(zlib.decompress(data), draw))
    else:
        data = mutated(data or b"\0", draw)
    chunks[which] = kind, data
    packed = (struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return content[:8] + b"".join(packed)
