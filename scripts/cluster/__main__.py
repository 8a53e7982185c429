"""A cluster of one node for tests: Kubernetes itself, from its Go modules, in namespaces of its own.

python -m scripts.cluster up             start it, where none runs; prints the path of its kubeconfig
python -m scripts.cluster down           end it, and remove what it wrote
python -m scripts.cluster load IMAGE...  give it images of the container engine
python -m scripts.cluster kubectl ...    the kubectl of its version, with its kubeconfig
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from scripts.cluster import binaries, certificates, images, mounts, network, packages, settings, volumes
from scripts.cluster.addresses import LINK
from scripts.cluster.folders import ROOT, NodeFolders, node_folders
from scripts.cluster.running import RunningNode, find_running

START_SECONDS: Final = 180.0
OBJECTS: Final = Path(__file__).parent / "objects"


def main(words: Sequence[str]) -> int:
    match list(words):
        case ["up"]:
            up()
        case ["down"]:
            down()
        case ["load", *names] if names:
            images.load_from_engine(_running().folders, names)
        case ["kubectl", *rest]:
            return subprocess.run([*kubectl(_running().folders), *rest], check=False).returncode
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


def up() -> None:
    """Start a node where none runs, and wait until it can run pods."""
    node = node_folders()
    if find_running(node) is None:
        packages.require()
        programs = binaries.build()
        down()
        started = time.monotonic()
        _start(node, programs)
        _wait("the API server", lambda: _asks(node, "get", "--raw", "/readyz"), node)
        for name in ("pause", "coredns"):
            image = images.PAUSE if name == "pause" else images.COREDNS
            _wait("containerd", node.containerd_socket.exists, node)
            images.load_archive(node, images.archive(image, programs / name))
        subprocess.run([*kubectl(node), "apply", "-f", OBJECTS], stdout=subprocess.DEVNULL, check=True)
        _apply(node, volumes.make(node.volumes))
        rollout = ("rollout", "status", "-n", "kube-system", "deployment/coredns", "--timeout=5s")
        _wait("the name server", lambda: _asks(node, *rollout), node)
        print(f"started in {time.monotonic() - started:.0f} s")
    found = find_running(node)
    cost = found.cost() if found else ""
    print(f"kubeconfig: {node.kubeconfig}\nkubectl:    {binaries.folder() / 'kubectl'}\ncosts:      {cost}")


def _start(node: NodeFolders, programs: Path) -> None:
    """Start the first process of the node, in namespaces of its own, and link them to the machine."""
    node.root.mkdir(parents=True)
    node.logs.mkdir()
    certificates.write_all(node.keys)
    settings.write_all(node)
    shutil.copy(node.keys / "admin.kubeconfig", node.kubeconfig)
    node.kubeconfig.chmod(0o600)
    mounts.make_cgroups()
    namespaces = ("--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--mount-proc")
    first = (sys.executable, "-P", "-m", "scripts.cluster.node", str(node.root), str(programs))
    with (node.logs / "node").open("ab") as log:
        # It ends with its child, and its child with it.
        parent = subprocess.Popen(
            ["unshare", *namespaces, "--kill-child=SIGKILL", *first],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    RunningNode.of(node, parent.pid).write()
    _wait("the first process", lambda: bool(RunningNode.of(node, parent.pid).children()), node)
    (child,) = RunningNode.of(node, parent.pid).children()
    network.link_to(child)


def down() -> None:
    """End what was started here, and remove its files."""
    node = node_folders()
    if running := find_running(node):
        first = running.children()
        os.kill(running.process, signal.SIGKILL)
        # Its child ends last of all: the kernel first ends every process of the namespace.
        _wait("the end of the node", lambda: not any(Path(f"/proc/{each}").exists() for each in first), node)
    if subprocess.run(["ip", "link", "show", LINK], capture_output=True, check=False).returncode == 0:
        subprocess.run(["ip", "link", "delete", LINK], check=False)
    mounts.remove_cgroups()
    shutil.rmtree(node.root, ignore_errors=True)


def kubectl(node: NodeFolders) -> list[str]:
    return [str(binaries.folder() / "kubectl"), f"--kubeconfig={node.kubeconfig}"]


def _running() -> RunningNode:
    if found := find_running(node_folders()):
        return found
    sys.exit("error: no cluster runs\nhint: make cluster")


def _apply(node: NodeFolders, objects: Sequence[object]) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    command = [*kubectl(node), "apply", "-f", "-"]
    subprocess.run(command, input=text, text=True, stdout=subprocess.DEVNULL, check=True)


def _asks(node: NodeFolders, *words: str) -> bool:
    done = subprocess.run([*kubectl(node), *words], capture_output=True, check=False)
    return done.returncode == 0


def _wait(what: str, is_so: Callable[[], bool], node: NodeFolders) -> None:
    end = time.monotonic() + START_SECONDS
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"error: {what} did not come within {START_SECONDS:g} s\nhint: the logs: {node.logs}")
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
