"""The first process of the node: it sets the node up, starts the parts, and starts again whatever ends.

    python -m scripts.cluster.node FOLDER PROGRAMS

It runs in namespaces of its own for processes, mounts, networks and host names. Whoever ends it ends all that
it started: the kernel kills every process of a namespace whose first process is gone, unmounts what was
mounted there, and removes its interfaces.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from scripts.cluster import mounts, network
from scripts.cluster.addresses import NODE
from scripts.cluster.folders import NodeFolders
from scripts.cluster.parts import Part, all_parts

PAUSE_SECONDS: Final = 0.5


def main(folder: str, programs: str) -> None:
    node = NodeFolders(Path(folder))
    # Its session outlives the terminal that it was started from.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    socket.sethostname(NODE)
    mounts.mount_all(node)
    network.set_up()
    running = {_start(part, node): part for part in all_parts(Path(programs), node)}
    while True:
        # Every orphan of the namespace comes here, too.
        ended, status = os.wait()
        if part := running.pop(ended, None):
            print(f"{part.name} ended with {status}, and is started again", flush=True)
            time.sleep(PAUSE_SECONDS)
            running[_start(part, node)] = part


def _start(part: Part, node: NodeFolders) -> int:
    with (node.logs / part.name).open("ab") as log:
        # Not waited for by its object: it is waited for above, by its number.
        return subprocess.Popen(part.command, stdout=log, stderr=log).pid


if __name__ == "__main__":
    main(*sys.argv[1:])
