"""What a run is, as one typed object, whether it comes from YAML, from flags or from Python.

definition.py   what the definition of a setting says, and what settings accept
settings.py     every setting, defined once
config.py       all settings, checked together, and what they stand for
federation.py   data divided among clients, as a configuration says
reading.py      YAML, presets and run folders: read, written, compared
presets/        runs that come with the package

Public: the names in `__all__`.
"""

from smofi.config.config import Config
from smofi.config.presets import Preset, presets
from smofi.config.reading import (
    changed_fields,
    config_yaml,
    overridden,
    read_config,
    run_config,
    sentence_of,
)
from smofi.config.settings import RESUMABLE, Settings

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
