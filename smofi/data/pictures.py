"""Read pictures from outside: look at their size before they are decoded, and refuse by name what is broken."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from PIL import Image, UnidentifiedImageError
from PIL.ImageFile import ImageFile

from smofi.data.decoded import Array, ReadProgress
from smofi.data.outside import read_bytes, wrong
from smofi.errors import InputError

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP")
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp")
MOST_PIXELS = 16_000_000
LARGE = 100_000
"""Pixels in a picture from which threads are worth it."""
THREADS = min(8, os.cpu_count() or 1)
WORKING = 12 * THREADS
"""Bytes for a pixel while pictures are decoded, in every thread: as it is stored, flat, in RGB."""
MOST_BYTES = 100_000_000
"""In one file: 16 million pixels of four bytes, and room for what a camera adds."""

_ORIENTATION = 0x0112  # the EXIF tag
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class PictureHeader:
    """The size of a picture when it stands upright, and whether it is grey, known before it is decoded."""

    width: int
    height: int
    grey: bool


def read_picture_header(path: Path) -> PictureHeader:
    """Read the size of a picture, and whether it is grey."""
    with _opened(read_bytes(path, MOST_BYTES, "a picture"), path) as image:
        swapped = _orientation(image) >= 5
        width, height = image.size[::-1] if swapped else image.size
        return PictureHeader(width, height, image.mode in ("1", "L", "LA", "La"))


def read_picture(path: Path, *, grey: bool = False, upright: bool = False, side: int | None = None) -> Array:
    """Read a picture file, as `decode_picture` does its bytes."""
    return decode_picture(read_bytes(path, MOST_BYTES, "a picture"), path, grey=grey, upright=upright, side=side)


def decode_picture(
    content: bytes, path: Path, *, grey: bool = False, upright: bool = False, side: int | None = None
) -> Array:
    """Decode a picture as uint8 `[height, width, 3]`, or `[height, width, 1]` if `grey`; errors name `path`.

    Of a moving picture it is the first frame; what is transparent is laid on white; 16 bits a channel are refused.
    `upright` turns it as the camera was held; `side` brings the square in its middle to this height and width.
    """
    with _opened(content, path) as image:
        turn = _UPRIGHT.get(_orientation(image)) if upright else None
        image.load()
        flat: Image.Image = image
        if image.has_transparency_data:
            clear = image.convert("RGBA")
            flat = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)
        flat = flat.convert("L" if grey else "RGB")
        if side is not None:
            edge = min(flat.size)
            left, top = ((length - edge) / 2 for length in flat.size)
            flat = flat.resize((side, side), Image.Resampling.BILINEAR, box=(left, top, left + edge, top + edge))
        array = np.array(flat if turn is None else flat.transpose(turn))
    return array[..., None] if grey else array


def map_with_progress(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    progress: ReadProgress,
    *,
    threads: bool = False,
    done: int = 0,
    total: int | None = None,
) -> list[Result]:
    """Return the results of `work` for each item, in order; refusals come in this order too.

    Threads are worth it for large pictures: Pillow decodes without the GIL, but reads headers with it.
    """
    size = max(1, min(1000, len(items) // 100))
    results: list[Result] = []
    with _quiet(), ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(items), size):
            chunk = items[start : start + size]
            results.extend(pool.map(work, chunk) if threads else map(work, chunk))
            progress(done + len(results), total or len(items))
    return results


def picture_input(size: Sequence[int], *, upright: bool = False, side: int | None = None) -> dict[str, Any]:
    """Describe what `decode_picture` did to pictures that became `size`: a reader's `raw_input`."""
    height, width, channels = size
    return {
        "kind": "picture",
        "height": height,
        "width": width,
        "channels": "RGB" if channels == 3 else "L",
        "transparent": "white",
        "upright": upright,
        "middle_square": side,
        "type": "uint8",
    }


def suffixes(paths: Iterable[Path]) -> str:
    """List the endings of these names for an error."""
    return ", ".join(sorted({path.suffix or path.name for path in paths})[:10]) or "nothing"


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what Pillow warns of; in threads, only while the one that waits for them does too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _opened(content: bytes, path: Path) -> Iterator[ImageFile]:
    try:
        _check_size(path, *_webp_size(content))
        with _quiet(), Image.open(io.BytesIO(content), formats=FORMATS) as image:
            _check_size(path, *image.size)
            # Of 16 bits the upper 8 would be left: of an X-ray that uses 12, only 16 greys. Of the formats read here
            # PNG alone has 16, and each piece of a picture says last how its pixels are stored: L, RGB, I;16B, RGB;16B.
            if any(str(piece[3]).endswith(";16B") for piece in image.tile):
                wrong(
                    path,
                    "a picture of 8 bits a channel, but it has 16: convert it to 8 bits, so that what matters fills 0 "
                    "to 255, or pass the pictures as an array of floats, by npz:PATH",
                )
            yield image
    except (InputError, MemoryError):
        raise
    except UnidentifiedImageError:
        wrong(path, f"a picture ({', '.join(FORMATS)}), but it is not one, or it is damaged")
    except Image.DecompressionBombError as error:
        wrong(path, f"a picture of 1 to {MOST_PIXELS:,} pixels ({error})")
    except Exception as error:  # decoders fail on damaged files in every way there is
        wrong(path, f"an undamaged picture ({str(error)[:100] or type(error).__name__})")


def _check_size(path: Path, width: int, height: int) -> None:
    if not 0 < width * height <= MOST_PIXELS:
        wrong(path, f"a picture of 1 to {MOST_PIXELS:,} pixels, but it has {width:,} x {height:,}")


def _webp_size(content: bytes) -> tuple[int, int]:
    """Read the size of a WebP file, for which Pillow takes the memory as soon as it opens it; else 1 x 1."""
    kind, data = content[12:16], content[20:30]
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP" or len(data) < 10:
        return 1, 1
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[4:7], "little"), 1 + int.from_bytes(data[7:10], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(data[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return int.from_bytes(data[6:8], "little") & 0x3FFF, int.from_bytes(data[8:10], "little") & 0x3FFF


def _orientation(image: Image.Image) -> int:
    """Tell how the camera was held, 1 to 8; 1 if the picture does not say so in a way that can be understood."""
    if "exif" not in image.info:
        return 1
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # as above; a picture is not broken because a remark about it is
        return 1
    return value if value in _UPRIGHT else 1
