"""Picture files: laid on white where they are transparent, turned upright, cropped and resized as in training."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp")
TAKES = "It takes picture files: JPEG, PNG, BMP, GIF or WebP, 8 bits a channel."

ORIENTATION = 0x0112  # the EXIF tag
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def read(paths: Iterable[str], facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield an image [height, width, channels] of bytes per file."""
    for path in paths:
        with open(path, "rb") as file:
            content = file.read()
        try:
            with Image.open(io.BytesIO(content), formats=("JPEG", "PNG", "BMP", "GIF", "WEBP")) as image:
                if any(str(piece[3]).endswith(";16B") for piece in image.tile):
                    raise ValueError("it has 16 bits a channel, not 8")
                array = _pixels(image, facts)
        except UnidentifiedImageError as error:
            raise ValueError(f"{path}: expected a picture (JPEG, PNG, BMP, GIF or WebP), but it is not one") from error
        except Exception as error:  # decoders fail on damaged files in every way there is
            raise ValueError(f"{path}: expected a picture that can be read ({error})") from error
        if array.shape[:2] != (facts["height"], facts["width"]):
            size = f"{facts['width']} x {facts['height']}"
            raise ValueError(
                f"{path}: expected {size} pixels, as the model was trained on, but it has {array.shape[1]} x "
                f"{array.shape[0]}; resize it first"
            )
        yield path, array


def _pixels(image: Image.Image, facts: dict[str, Any]) -> Any:
    turn = UPRIGHT.get(image.getexif().get(ORIENTATION, 1)) if facts["upright"] and "exif" in image.info else None
    image.load()
    flat = image
    if image.has_transparency_data:
        clear = image.convert("RGBA")
        flat = Image.alpha_composite(Image.new("RGBA", clear.size, facts["transparent"]), clear)
    flat = flat.convert(facts["channels"])
    if (side := facts["middle_square"]) is not None:
        width, height = flat.size
        edge = min(width, height)
        left, top = (width - edge) / 2, (height - edge) / 2
        flat = flat.resize((side, side), Image.Resampling.BILINEAR, box=(left, top, left + edge, top + edge))
    array = np.array(flat if turn is None else flat.transpose(turn))
    return array[..., None] if array.ndim == 2 else array
