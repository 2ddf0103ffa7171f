from __future__ import annotations

import io
import struct
import threading
import tracemalloc
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from smofi.data.formats.pictures import (
    PictureHeader,
    decode_picture,
    map_with_progress,
    read_picture,
    read_picture_header,
)
from smofi.errors import InputError

PATH = Path("some.png")
COLOUR = np.random.default_rng(0).integers(256, size=(5, 4, 3), dtype=np.uint8)
GREY = COLOUR[..., 0]


def encoded(image: Image.Image, form: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def smooth(side: int = 32) -> Image.Image:
    """What JPEG keeps nearly as it is."""
    across, down = np.meshgrid(np.linspace(0, 255, side), np.linspace(0, 255, side))
    return Image.fromarray(np.stack([across, down, 255 - across], axis=-1).astype(np.uint8))


# --------------------------------------------------------------------------------------------------------------- modes


@pytest.mark.parametrize("form", ["PNG", "BMP"])
def test_colours_as_they_are(form: str) -> None:
    found = decode_picture(encoded(Image.fromarray(COLOUR), form), PATH)
    np.testing.assert_array_equal(found, COLOUR)
    assert found.flags.writeable


def test_webp_without_loss() -> None:
    np.testing.assert_array_equal(decode_picture(encoded(Image.fromarray(COLOUR), "WEBP", lossless=True), PATH), COLOUR)


def test_jpeg_nearly() -> None:
    found = decode_picture(encoded(smooth(), "JPEG", quality=95), PATH)
    assert np.abs(found.astype(int) - np.asarray(smooth()).astype(int)).max() < 12


def test_grey_pictures_as_three_channels_or_one() -> None:
    content = encoded(Image.fromarray(GREY))
    np.testing.assert_array_equal(decode_picture(content, PATH), np.stack([GREY] * 3, axis=-1))
    np.testing.assert_array_equal(decode_picture(content, PATH, grey=True), GREY[..., None])


def test_one_bit() -> None:
    content = encoded(Image.fromarray(GREY > 128))
    np.testing.assert_array_equal(decode_picture(content, PATH, grey=True)[..., 0], np.where(GREY > 128, 255, 0))


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(channels: int, bits: int, before: bytes = b"") -> bytes:
    """A picture of two by two; `before` comes before the header, which Pillow lets pass."""
    row = b"\0" + b"\x07" * (2 * channels * bits // 8)
    header = struct.pack(">IIBBBBB", 2, 2, bits, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(row * 2))
    return b"\x89PNG\r\n\x1a\n" + before + chunk(b"IHDR", header) + pixels + chunk(b"IEND", b"")


@pytest.mark.parametrize("before", [b"", chunk(b"tEXt", b"by\0me")])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_sixteen_bits_are_refused(tmp_path: Path, channels: int, before: bytes) -> None:
    path = tmp_path / "deep.png"
    path.write_bytes(png(channels, 16, before))
    for read in (read_picture_header, read_picture):
        with pytest.raises(InputError, match=r"deep\.png is not accepted: expected a picture of 8 bits .* npz:PATH"):
            read(path)
    path.write_bytes(png(channels, 8, before))
    assert read_picture(path).shape == (2, 2, 3)


def test_an_xray_of_twelve_bits_is_refused() -> None:
    deep = encoded(Image.fromarray(np.arange(4096, dtype=np.uint16).reshape(64, 64)))
    with pytest.raises(InputError, match="8 bits a channel, but it has 16: convert it to 8 bits, so that what matters"):
        decode_picture(deep, PATH, grey=True)


def test_sixteen_bits_for_all_three_colours_are_eight_or_less_a_channel() -> None:
    # a BMP of 5, 6 and 5 bits: one pixel of pure green
    masks = struct.pack("<III", 0xF800, 0x07E0, 0x001F)
    header = struct.pack("<IHHIIiiHHIIiiII", 70, 0, 0, 66, 40, 1, 1, 1, 16, 3, 4, 0, 0, 0, 0)
    content = b"BM" + header + masks + struct.pack("<HH", 0x07E0, 0)
    assert decode_picture(content, PATH).tolist() == [[[0, 255, 0]]]


def test_what_is_transparent_is_white() -> None:
    half = np.dstack([np.zeros((1, 3, 3), np.uint8), np.array([[0, 128, 255]], np.uint8)])
    # 255 (1 - alpha / 255) of white shows through black
    assert decode_picture(encoded(Image.fromarray(half)), PATH)[0, :, 0].tolist() == [255, 127, 0]
    pair = Image.merge("LA", [Image.new("L", (2, 1)), Image.fromarray(np.array([[0, 255]], np.uint8))])
    assert decode_picture(encoded(pair), PATH, grey=True)[0, :, 0].tolist() == [255, 0]


@pytest.mark.parametrize("form", ["PNG", "GIF", "BMP"])
def test_palettes(form: str) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((1, 0), 1)
    assert decode_picture(encoded(image, form), PATH).tolist() == [[[10, 20, 30], [200, 100, 50]]]
    if form != "BMP":
        clear = decode_picture(encoded(image, form, transparency=0), PATH)
        assert clear.tolist() == [[[255, 255, 255], [200, 100, 50]]]


def test_cmyk() -> None:
    found = decode_picture(encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=95), PATH)
    assert np.abs(found.astype(int) - [255, 0, 0]).max() < 10


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP"])
def test_the_first_frame_of_a_moving_picture(form: str) -> None:
    frames = [Image.new("RGB", (4, 3), colour) for colour in ((200, 0, 0), (0, 0, 200))]
    options = {} if form == "GIF" else {"lossless": True}
    content = encoded(frames[0], form, save_all=True, append_images=frames[1:], **options)
    assert np.unique(decode_picture(content, PATH).reshape(-1, 3), axis=0).tolist() == [[200, 0, 0]]


# -------------------------------------------------------------------------------------------------- upright and resized

TURNED = {
    # EXIF says where the top row and the left column of what is stored belong.
    1: lambda x: x,
    2: lambda x: x[:, ::-1],
    3: lambda x: x[::-1, ::-1],
    4: lambda x: x[::-1],
    5: lambda x: x.transpose(1, 0, 2),
    6: lambda x: x.transpose(1, 0, 2)[:, ::-1],
    7: lambda x: x.transpose(1, 0, 2)[::-1, ::-1],
    8: lambda x: x.transpose(1, 0, 2)[::-1],
}


@pytest.mark.parametrize("orientation", TURNED)
@pytest.mark.parametrize("form", ["PNG", "WEBP"])
def test_as_the_camera_was_held(tmp_path: Path, form: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "photo"
    path.write_bytes(encoded(Image.fromarray(COLOUR), form, exif=exif, **({} if form == "PNG" else {"lossless": True})))
    expected = TURNED[orientation](COLOUR)
    np.testing.assert_array_equal(read_picture(path, upright=True), expected)
    np.testing.assert_array_equal(read_picture(path), COLOUR)
    assert read_picture_header(path) == PictureHeader(width=expected.shape[1], height=expected.shape[0], grey=False)


@pytest.mark.parametrize(
    "exif", [b"Exif\x00\x00rubbish", b"Exif\x00\x00MM\x00*\xff\xff\xff\xff", b"Exif\x00\x00" + bytes(40)]
)
def test_a_strange_remark_does_not_matter(exif: bytes) -> None:
    content = encoded(smooth(), "JPEG", exif=exif)
    np.testing.assert_array_equal(decode_picture(content, PATH, upright=True), decode_picture(content, PATH))


def test_shrinking_averages_the_square_in_the_middle() -> None:
    # Halved, 4 x 2 is 2 x 1, and its middle column weighs columns by a triangle: (1, 3, 3, 1) / 8.
    image = np.array([[8, 16, 24, 8], [16, 24, 32, 16]], np.uint8)
    expected = ((8 + 3 * 16 + 3 * 24 + 8) / 8 + (16 + 3 * 24 + 3 * 32 + 16) / 8) / 2
    assert decode_picture(encoded(Image.fromarray(image)), PATH, grey=True, side=1).tolist() == [[[expected]]]


def test_the_side_is_that_of_a_square_and_what_fits_stays(tmp_path: Path) -> None:
    assert decode_picture(encoded(smooth(40).crop((0, 0, 40, 25))), PATH, side=16).shape == (16, 16, 3)
    square = COLOUR[:4]
    np.testing.assert_array_equal(decode_picture(encoded(Image.fromarray(square)), PATH, side=4), square)
    # Half a pixel to each side: the whole columns 0.5 to 4.5 of five.
    assert decode_picture(encoded(Image.fromarray(COLOUR)), PATH, side=4).shape == (4, 4, 3)


def test_a_thin_picture_is_not_blown_up() -> None:
    content = encoded(Image.new("L", (1_000_000, 1), 7))
    tracemalloc.start()
    try:
        assert (decode_picture(content, PATH, grey=True, side=64) == 7).all()
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


# --------------------------------------------------------------------------------------------------------------- damage


def png_header(width: int, height: int) -> bytes:
    data = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", data) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def bmp_header(width: int, height: int) -> bytes:
    return b"BM" + struct.pack("<IHHIIiiHHIIiiII", 58, 0, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0) + bytes(4)


def gif_header(width: int, height: int) -> bytes:
    return (
        b"GIF89a"
        + struct.pack("<HHBBB", width, height, 0, 0, 0)
        + b","
        + struct.pack("<HHHHBB", 0, 0, width, height, 0, 8)
    )


def webp_header(width: int, height: int) -> bytes:
    data = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + data


def jpeg_header(width: int, height: int) -> bytes:
    frame = struct.pack(">BHHB", 8, height, width, 1) + b"\x01\x11\x00"
    return (
        b"\xff\xd8\xff\xc0"
        + struct.pack(">H", len(frame) + 2)
        + frame
        + b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\xff\xd9"
    )


@pytest.mark.parametrize(
    "content",
    [
        png_header(4001, 4000),
        png_header(10_000, 10_000),
        png_header(2**31 - 1, 2**31 - 1),
        bmp_header(2**31 - 1, 2**31 - 1),
        bmp_header(4001, 4000),
        gif_header(65535, 65535),
        webp_header(2**24, 255),
        webp_header(16384, 16384),
        jpeg_header(65535, 65535),
        encoded(Image.new("1", (4001, 4000))),
        encoded(Image.new("L", (5000, 5000)), "WEBP", lossless=True),
    ],
)
def test_bombs_are_refused_before_they_are_decoded(content: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(
            InputError, match=r"^some\.png is not accepted: expected a picture of 1 to 16,000,000 pixels"
        ):
            decode_picture(content, PATH)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "content", [b"", b"text", b"%PDF-1.4", b"P6 1 1 255 abc", encoded(smooth(), "TIFF"), encoded(smooth(), "ICO")]
)
def test_other_formats_are_not_opened(content: bytes) -> None:
    with pytest.raises(
        InputError, match=r"some\.png is not accepted: expected a picture \(JPEG, PNG, BMP, GIF, WEBP\)"
    ):
        decode_picture(content, PATH)


def test_a_file_too_large_or_absent_is_named(tmp_path: Path) -> None:
    path = tmp_path / "huge.png"
    with path.open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(InputError, match=r"huge\.png is not accepted: expected a picture, at most 100,000,000 bytes"):
        read_picture_header(path)
    with pytest.raises(InputError, match=r"absent\.png is not accepted: expected a picture \(No such file"):
        read_picture(tmp_path / "absent.png")
    with pytest.raises(InputError, match="not a regular file"):
        read_picture(tmp_path)


PICTURES = {
    "PNG": encoded(smooth()),
    "grey PNG": encoded(smooth().convert("L")),
    "palette PNG": encoded(smooth().convert("P"), transparency=3),
    "JPEG": encoded(smooth(), "JPEG", exif=Image.Exif()),
    "progressive JPEG": encoded(smooth(), "JPEG", progressive=True),
    "BMP": encoded(smooth(), "BMP"),
    "GIF": encoded(smooth(), "GIF"),
    "WEBP": encoded(smooth(), "WEBP", lossless=True),
    "lossy WEBP": encoded(smooth(), "WEBP", exif=Image.Exif()),
}
WHOLE = {name: decode_picture(content, PATH, upright=True) for name, content in PICTURES.items()}


@settings(max_examples=200)
@given(data=st.data())
def test_a_picture_cut_short_is_refused_unless_nothing_is_missing(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(PICTURES)))
    content = PICTURES[name][: data.draw(st.integers(0, len(PICTURES[name]) - 1))]
    try:
        found = decode_picture(content, PATH, upright=True)
    except InputError:
        return
    np.testing.assert_array_equal(found, WHOLE[name])


@settings(max_examples=300)
@given(data=st.data())
def test_no_damage_is_a_crash_or_a_warning(data: st.DataObject) -> None:
    content = bytearray(PICTURES[data.draw(st.sampled_from(sorted(PICTURES)))])
    for _ in range(data.draw(st.integers(1, 5))):
        # most of what a decoder believes stands at the beginning
        place = data.draw(st.integers(0, 60) | st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    side = data.draw(st.sampled_from([None, 8]))
    try:
        found = decode_picture(bytes(content), PATH, upright=True, side=side)
    except InputError:
        return
    assert (found.dtype, found.ndim, found.shape[2]) == (np.uint8, 3, 3)
    assert side is None or found.shape == (8, 8, 3)


# --------------------------------------------------------------------------------------------------------------- many


@pytest.mark.parametrize("threads", [False, True])
def test_many_in_order_with_progress(threads: bool) -> None:
    told: list[tuple[int, int]] = []
    workers = set()

    def work(item: int) -> int:
        workers.add(threading.get_ident())
        return item * item

    found = map_with_progress(
        work, range(250), lambda done, total: told.append((done, total)), threads=threads, done=50, total=300
    )
    assert found == [item * item for item in range(250)]
    assert told[0] == (52, 300)
    assert told[-1] == (300, 300)
    assert len(told) == 125
    assert (threading.get_ident() in workers) is not threads


@pytest.mark.parametrize("threads", [False, True])
def test_the_first_refusal_in_order_is_the_one_reported(tmp_path: Path, threads: bool) -> None:
    filters = list(warnings.filters)
    paths = [tmp_path / f"{number}.png" for number in range(300)]
    for path in paths:
        path.write_bytes(PICTURES["grey PNG"] if path.name not in ("207.png", "208.png") else b"broken")
    with pytest.raises(InputError, match=r"207\.png is not accepted"):
        map_with_progress(read_picture, paths, lambda done, total: None, threads=threads)
    assert warnings.filters == filters
