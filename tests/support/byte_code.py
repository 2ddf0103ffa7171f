"""Imported before all else: processes of tests keep byte code, even where PYTHONDONTWRITEBYTECODE is set.

Many containers set it, to keep folders of sources clean. There, every process would compile all of torch again, which
takes seconds; so byte code goes to a folder of its own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

KEPT = Path(__file__).parents[2] / ".pytest_cache" / "byte-code"

if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(KEPT)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
