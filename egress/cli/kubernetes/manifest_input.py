"""Read manifests from files or standard input, and the options that say which pods are which."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import click

from egress.cli import folder_options
from egress.errors import ContentError, UnreadableError, UsageError, reason_of
from egress.kubernetes.manifest_set import PROXY_LABEL, PodLabels
from egress.kubernetes.manifest_text import ManifestText, read_manifests
from egress.kubernetes.pod_shapes import SANDBOX_LABEL, Label
from egress.policy.rule_file_reader import MAX_FILE_BYTES, NotTextError, printable_path, read_text

type Command = Callable[..., int]

STANDARD_INPUT: Final = "-"
MAX_FILES: Final = 256
_LABEL = re.compile(
    r"(?P<key>[A-Za-z0-9][A-Za-z0-9_./-]{0,316})=(?P<value>[A-Za-z0-9]([A-Za-z0-9_.-]{0,62}))"
)

files = click.argument("files", nargs=-1, required=True, type=folder_options.FILE, metavar="FILE...")


def pod_options(command: Command) -> Command:
    """Add the options that say which pods are sandboxes and proxies; the command gets `labels`."""

    @click.option(
        "--namespace", "-n", default="", metavar="NAME", help="Namespace of objects that name none."
    )
    @click.option(
        "--sandbox-label",
        default="=".join(SANDBOX_LABEL),
        metavar="KEY=VALUE",
        help=f"Label of sandboxes. [{'='.join(SANDBOX_LABEL)}]",
    )
    @click.option(
        "--proxy-label",
        default="=".join(PROXY_LABEL),
        metavar="KEY=VALUE",
        help=f"Label of the proxy's pods. [{'='.join(PROXY_LABEL)}]",
    )
    @functools.wraps(command)
    def labelled(*words: object, sandbox_label: str, proxy_label: str, **given: object) -> int:
        labels = PodLabels(
            _read_label("--sandbox-label", sandbox_label), _read_label("--proxy-label", proxy_label)
        )
        return command(*words, labels=labels, **given)

    return labelled


def read_files(paths: Sequence[Path]) -> list[ManifestText]:
    """Read manifests; `-` is standard input. Raises `UnreadableError` and `UsageError`.

    A file that is not text is no reason to stop: that is a finding of its own.
    """
    if len(paths) > MAX_FILES:
        raise UsageError(f"more than {MAX_FILES} files", "join them, or check them in parts")
    if [str(path) for path in paths].count(STANDARD_INPUT) > 1:
        raise UsageError("standard input is named twice", "write `-` once")
    return [_read(path) for path in paths]


def _read(path: Path) -> ManifestText:
    name = "standard input" if str(path) == STANDARD_INPUT else printable_path(path)
    if str(path) != STANDARD_INPUT and not path.exists():
        raise UnreadableError(f"file not found: {name}", "check the name")
    try:
        text = _standard_input() if str(path) == STANDARD_INPUT else read_text(path)
    except NotTextError as error:
        return ManifestText(name, "", (), (error.finding,))
    return read_manifests(name, text)


def _standard_input() -> str:
    """Read all of standard input, up to the limit of a file."""
    try:
        data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UnreadableError(f"standard input cannot be read: {reason_of(error)}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ContentError("standard input is larger than 16 MiB", "check it in parts")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ContentError(
            f"standard input is not UTF-8 at byte {error.start}", "write it as UTF-8"
        ) from None


def _read_label(option: str, text: str) -> Label:
    found = _LABEL.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{option}: `{text[:100]}` is not a label", "write KEY=VALUE, such as egress=workload"
        )
    return found["key"], found["value"]
