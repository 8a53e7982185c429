"""One container for one command, held as tightly as the images promise to bear."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

_HELD = (
    *("--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
    *("--tmpfs", "/tmp", "--tmpfs", "/run/egress:uid=10001,gid=10001,mode=0700"),
    *("--tmpfs", "/var/lib/egress:uid=10001,gid=10001,mode=0700"),
    *("--tmpfs", "/workspace:uid=1000,gid=1000"),
)


def run(
    image: str, *words: str, entrypoint: str | None = None, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a command in an image, and take the container away again."""
    entry = [] if entrypoint is None else ["--entrypoint", entrypoint]
    return subprocess.run(
        ["docker", "run", *_HELD, *entry, *options, image, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"], "DOCKER_CONFIG": "/nonexistent"},  # noqa: TID251
    )
