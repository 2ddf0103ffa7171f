"""The settings of the data: what it is, and how it is divided among clients."""

from __future__ import annotations

from types import NoneType

from smofi.data.augment import Augment, parse_augment
from smofi.data.catalogue import check_data_name
from smofi.settings import checks
from smofi.settings.checks import Check, count, optional, text_for, text_or
from smofi.settings.definition import Argument, Checked, setting

_augment, _column = text_for("crop(4)+flip", parse_augment), optional(checks.column)


class DataSettings(Checked):
    """The first of all settings."""

    data: str = setting(
        "digits",
        Check(check_data_name),
        "a data set that `smofi data` lists, or your own: folder:PATH, npz:PATH, csv:PATH, python:module:function",
        page="data",
    )
    label_column: str | None = setting(
        None, _column, "for csv:PATH, the column to predict; by default the one called label, y, class or target"
    )
    client_column: str | None = setting(
        None,
        _column,
        "for csv:PATH, the column that says whose sample it is; by default the one called client, site or user",
    )
    data_folder: str | None = setting(
        None,
        optional(checks.folder),
        "folder with the official files of the data set; by default SMOFI_DATA/NAME",
        resumable=True,
        computing=True,
    )
    image_size: int | None = setting(
        None, optional(count), "resize images to this height and width; by default they stay as they are"
    )
    max_train: int | None = setting(None, optional(count), "use this many training samples at most, the first ones")
    max_test: int | None = setting(None, optional(count), "use this many test samples at most, the first ones")
    augment: str | None = setting(
        None,
        optional(_augment),
        "vary training images: crop(4) shifts by up to 4 pixels, flip mirrors half of them, crop(4)+flip does both",
        argument=Argument(check=text_or(_augment, 'a string such as "crop(4)+flip", or None', Augment, NoneType)),
    )
    clients: int | None = setting(
        50, optional(count), "number of clients; with natural, by default everyone who owns at least a batch of samples"
    )
    partition: str = setting(
        "dirichlet(0.2)",
        Check(checks.partition),
        "how the data is divided: dirichlet(gamma), iid, shards(k), natural, or file:RUN for that of another run",
        page="partitions",
    )
