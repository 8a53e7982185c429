"""`python -m egress` is `egress`."""

from __future__ import annotations

import sys

from egress.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
