"""The user's own pictures: all of one size, or each brought to a square; grey if all are, else in colour."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from smofi.data.decoded import Array, ReadProgress
from smofi.data.formats.files import check_room, wrong
from smofi.data.formats.pictures import (
    LARGE,
    WORKING,
    PictureHeader,
    map_with_progress,
    picture_input,
    read_picture,
    read_picture_header,
)


def decode_pictures(
    paths: list[Path], image_size: int | None, folder: Path, progress: ReadProgress
) -> tuple[Array, dict[str, Any]]:
    """All pictures, `[pictures, height, width, channels]`, and what was done to them.

    Resized, the shorter side becomes `image_size` and the middle is kept.
    """
    headers = map_with_progress(read_picture_header, paths, progress, total=2 * len(paths))
    if image_size is None:
        _check_one_size(paths, headers)
    height, width = (image_size, image_size) if image_size else (headers[0].height, headers[0].width)
    grey = all(header.grey for header in headers)
    shape = (len(paths), height, width, 1 if grey else 3)
    largest = max(header.width * header.height for header in headers)
    check_room(
        folder,
        math.prod(shape) + WORKING * largest,
        f"its pictures take {shape[0]:,} x {height:,} x {width:,} x {shape[3]} bytes (less with a smaller image_size) "
        f"+ {WORKING} x {largest:,} while they are decoded",
    )
    images = np.empty(shape, np.uint8)

    def decode(row: int) -> None:
        image = read_picture(paths[row], grey=grey, upright=True, side=image_size)
        if image.shape != shape[1:]:
            wrong(paths[row], "a picture that does not change while it is read")
        images[row] = image

    large = sum(header.width * header.height for header in headers) >= LARGE * len(headers)
    map_with_progress(decode, range(len(paths)), progress, threads=large, done=len(paths), total=2 * len(paths))
    return images, picture_input(shape[1:], upright=True, side=image_size)


def _check_one_size(paths: list[Path], headers: list[PictureHeader]) -> None:
    first = headers[0]
    for path, header in zip(paths, headers, strict=True):
        if (header.width, header.height) != (first.width, first.height):
            wrong(
                path,
                f"{first.width} x {first.height} pixels as in {paths[0]}, but it has {header.width} x {header.height}: "
                "set image_size to resize all pictures",
            )
