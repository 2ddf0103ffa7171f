"""What a run is, as one typed object, whether it comes from YAML, from flags or from Python.

config.py       all settings, checked together, and what they stand for: data, model, arguments of `smofi.train`
federation.py   the data, divided among clients
lasting.py      what a run's file means, also where a default has changed since
naming.py       what clients are called, and which test samples are their own, where data has owners
reading.py      from a YAML file, a preset or a run folder, and what is wrong with one as a sentence
writing.py      as YAML, and what a resumed run may not change
presets/        configurations that come with the package
The settings themselves are defined in `smofi.settings`.

Public: the names in `__all__`.
"""

from smofi.config.config import Config
from smofi.config.presets import Preset, presets
from smofi.config.reading import overridden, read_config, run_config, sentence_of
from smofi.config.writing import changed_fields, config_yaml
from smofi.settings import RESUMABLE, Settings

__all__ = [
    "RESUMABLE",
    "Config",
    "Preset",
    "Settings",
    "changed_fields",
    "config_yaml",
    "overridden",
    "presets",
    "read_config",
    "run_config",
    "sentence_of",
]
