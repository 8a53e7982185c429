"""The guide to Kubernetes as somebody who types what it says: its files, and its commands in their order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.cluster import binaries
from scripts.cluster.folders import cache
from scripts.pages import ROOT
from tests.chart.rendered_chart import HELM
from tests.cluster.running_cluster import RunningCluster

GUIDE: Final = ROOT / "docs/guides/kubernetes.md"
FENCE: Final = re.compile(r"^( *)```(\w+)(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)
STEP_SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class Step:
    """A block of the page: commands, or a file to save."""

    heading: str
    file: str
    """The name of the file; empty if these are commands."""
    text: str


def steps(first: str, last: str) -> Iterator[Step]:
    """The blocks from the heading `first` to the end of the section `last`."""
    page = GUIDE.read_text("utf-8")
    headings = [(found.start(), found[1]) for found in re.finditer(r"^##+ (.*)$", page, re.MULTILINE)]
    names = [name for _, name in headings]
    begin, end = headings[names.index(first)][0], headings[names.index(last) + 1][0]
    for found in FENCE.finditer(page, begin, end):
        heading = next(name for start, name in reversed(headings) if start < found.start())
        if found[2] == "sh":
            yield Step(heading, "", textwrap.dedent(found[4]))
        else:
            yield Step(heading, found[3].strip() or "values.yaml", textwrap.dedent(found[4]))


class Typist:
    """A shell in a folder, where `egress`, `kubectl`, `helm` and `docker` are those of this trial.

    `docker push` gives the image to the node: there is no registry. The variable `sandbox` goes from
    step to step.
    """

    def __init__(self, cluster: RunningCluster, folder: Path) -> None:
        self.folder = folder
        programs = folder / ".programs"
        programs.mkdir()
        load = f'XDG_CACHE_HOME={cache().parents[1]} exec {sys.executable} -P -m scripts.cluster load "$2"'
        for name, command in {
            "egress": f'exec {sys.executable} -P -m egress "$@"',
            "kubectl": f'exec {binaries.folder() / "kubectl"} "$@"',
            "helm": f'exec {HELM} "$@"',
            "docker": f'if [ "$1" = push ]; then {load}; fi\nexec {shutil.which("docker")} "$@"',
        }.items():
            program = programs / name
            program.write_text(f"#!/bin/sh\n{command}\n", "utf-8")
            program.chmod(0o755)
        self._variables = folder / ".variables"
        self._variables.touch()
        self.environment = {
            "PATH": f"{programs}:{os.defpath}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            "KUBECONFIG": str(cluster.folders.kubeconfig),
        }

    def type(self, text: str) -> subprocess.CompletedProcess[str]:
        """Run commands, and return what they printed; the status is that of the first one that fails."""
        script = (
            f". {self._variables}\n{text}\nset +e; declare -p sandbox >{self._variables} 2>/dev/null; true"
        )
        return subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )
