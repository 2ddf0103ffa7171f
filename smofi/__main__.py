"""`python -m smofi` is the same as `smofi`."""

import sys

from smofi.cli import main

sys.exit(main())
