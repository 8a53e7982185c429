"""`egress doctor --image`: test which HTTPS clients of an image trust the proxy and get a credential."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Final

from egress import environment
from egress.cli import render
from egress.cli.render import BAD, BOLD, DIM, GOOD, Cell
from egress.cli.sandboxes.stacks.stack_trial import AbsentStack, StackResult, open_trial
from egress.fleet.runtime_choice import RUNTIME_VARIABLE, choose_runtime, read_kind
from egress.proxy.clock import SystemClock

_HEAD: Final[list[Cell]] = [(title, BOLD) for title in ("stack", "version", "trusts", "injected")]


def examine_image(image: str, runtime: str | None, *, as_json: bool) -> int:
    """Test the image and print the results; return 1 if a client does not trust, or gets no credential.

    Raises errors of creating its sandbox.
    """
    environ = environment.read_environment()
    # `host` only exists for namespaces, so --runtime is not needed.
    asked = runtime or ("namespace" if image == "host" or image.startswith("/") else None)
    choice = choose_runtime(read_kind(asked, environ.get(RUNTIME_VARIABLE)), environ)
    folder = environment.runtime_dir(environ)
    with (
        tempfile.TemporaryDirectory(prefix="egress-doctor-") as private,
        open_trial(choice, environ, folder, Path(private), SystemClock().now()) as trial,
    ):
        tried = list(trial.try_stacks(image))
    found = [each for each in tried if isinstance(each, StackResult)]
    absent = [each.stack for each in tried if isinstance(each, AbsentStack)]
    # An image without any client proves nothing, so it does not pass.
    is_well = bool(found) and all(each.trusts and each.injected for each in found)
    if as_json:
        stacks = [asdict(each) for each in found]
        render.data({"ok": is_well, "image": image, "stacks": stacks, "absent": absent})
    else:
        _show(image, found, absent)
    return int(not is_well)


def _show(image: str, found: list[StackResult], absent: list[str]) -> None:
    if not found:
        render.line(f"no HTTPS client found in {image}")
        return
    render.table([_HEAD, *(_row(each) for each in found)])
    for each in found:
        if each.cure:
            render.line((f"{each.stack}: ", BOLD), each.cure)
        if each.said:
            render.line((f"  its output: {each.said}", DIM))
    if absent:
        render.line((f"not in the image: {', '.join(absent)}", DIM))


def _row(each: StackResult) -> list[Cell]:
    return [each.stack, each.version, _mark(is_so=each.trusts), _mark(is_so=each.injected)]


def _mark(*, is_so: bool) -> Cell:
    return ("yes", GOOD) if is_so else ("no", BAD)
