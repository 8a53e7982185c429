"""Push one ref by dulwich: `with_dulwich.py FOLDER URL SOURCE TARGET [force]`."""

from __future__ import annotations

import sys

from dulwich import porcelain


def main(folder: str, url: str, source: str, target: str, *words: str) -> int:
    result = porcelain.push(
        folder, url, f"{source}:{target}", force="force" in words, errstream=sys.stderr.buffer
    )
    status = (result.ref_status if result is not None else None) or {}
    return 1 if any(status.values()) else 0


sys.exit(main(*sys.argv[1:]))
