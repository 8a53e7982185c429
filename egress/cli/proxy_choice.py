"""The choice of a running proxy: all of this user, one of them, or the one that has a sandbox."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from egress import environment
from egress.cli.control_client import ask_proxy
from egress.errors import ContentError, UnreadableError, UsageError
from egress.fleet.running_proxies import proxy_folders, running_proxies
from egress.unix.http_connection import JsonAnswer

_NAME = re.compile(r"[a-z0-9._-]{1,63}")
MAX_AT_ONCE = 32
"""Proxies that are asked at the same time."""
MAX_NAMES = 10
"""Names of sandboxes in a hint."""


@dataclass(frozen=True, slots=True)
class SandboxProxy:
    """The proxy of a sandbox, with its answer about the rules of that sandbox."""

    folder: Path | None
    """The folder of its sockets; None for the usual one."""
    policy: JsonAnswer


def chosen_folders(runtime_dir: Path | None, run: str | None) -> list[Path]:
    """Return the folders of the sockets of every proxy, or of that of one run. Raises `UsageError`."""
    above = _folder_above(runtime_dir)
    if run is None:
        return proxy_folders(above)
    folders = [proxy.folder for proxy in running_proxies(above) if proxy.run == run]
    if not folders:
        raise UsageError(f"no run {run[:60]} is running", "`egress ps` lists runs with sandboxes")
    return folders


def ask_one_proxy(
    target: str, body: Mapping[str, object] | None, runtime_dir: Path | None, run: str | None
) -> Mapping[str, object]:
    """Return one proxy's answer. Raises `UnreadableError` while it starts, `ContentError` if it refuses."""
    code, answer = ask_proxy("GET", target, body, folder_of_one(runtime_dir, run))
    # The control socket opens before the rest of the proxy, and answers 404 until the start is over.
    if code == HTTPStatus.NOT_FOUND:
        raise UnreadableError("the proxy is still starting", "try again in a moment")
    if code != HTTPStatus.OK:
        raise ContentError(
            str(answer.get("error", "the proxy refused the request")), str(answer.get("hint", ""))
        )
    return answer


def folder_of_one(runtime_dir: Path | None, run: str | None) -> Path | None:
    """Return the folder of the sockets of one proxy: the only one, or that of `egress serve`, or of a run.

    None is the usual folder, where nothing may run. Raises `UsageError` where it is not clear which is meant.
    """
    above = _folder_above(runtime_dir)
    folders = proxy_folders(above) if run is None else chosen_folders(runtime_dir, run)
    if len(folders) < 2:
        return folders[0] if folders else runtime_dir
    # Folders of runs that have ended are there, too: only an answer tells.
    running = running_proxies(above)
    found = [proxy.folder for proxy in running if proxy.folder in folders]
    if len(found) == 1 or above in found:
        return found[0]
    if not found:
        return runtime_dir
    runs = sorted(proxy.run for proxy in running)
    raise UsageError(
        f"{len(found)} proxies are running", f"name one with --run: {', '.join(runs[:MAX_NAMES])}"
    )


def proxy_of(sandbox: str, runtime_dir: Path | None, run: str | None) -> SandboxProxy:
    """Return the proxy that has this sandbox. Raises `UsageError` where none has, or more than one."""
    if not _NAME.fullmatch(sandbox):
        raise UsageError("this is no name of a sandbox", "`egress ps` lists sandboxes")
    target = f"/policy/{sandbox}"

    def look(folder: Path) -> SandboxProxy | None:
        try:
            return SandboxProxy(folder, ask_proxy("GET", target, None, folder))
        except UnreadableError:
            # A proxy that has ended since has no sandboxes.
            return None

    with ThreadPoolExecutor(MAX_AT_ONCE) as threads:
        asked = [found for found in threads.map(look, chosen_folders(runtime_dir, run)) if found is not None]
    # Without any proxy that is the error to tell.
    asked = asked or [SandboxProxy(runtime_dir, ask_proxy("GET", target, None, runtime_dir))]
    having = [each for each in asked if each.policy.status == HTTPStatus.OK]
    if len(having) == 1:
        return having[0]
    if having:
        raise UsageError(
            f"{len(having)} runs have a sandbox of this name", "name one with --run; `egress ps` lists them"
        )
    # Another answer than that there is no such sandbox is more to the point.
    found = max((each.policy for each in asked), key=lambda policy: policy.status)
    if found.status == HTTPStatus.NOT_FOUND:
        # One proxy's own hint would leave out the sandboxes of the others.
        raise UsageError(f"no running sandbox is named {sandbox}", _names_hint(runtime_dir))
    raise error_of(found)


def _names_hint(runtime_dir: Path | None) -> str:
    proxies = running_proxies(_folder_above(runtime_dir))
    names = sorted({name for proxy in proxies for name in proxy.sandboxes})
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"sandboxes: {', '.join(names[:MAX_NAMES]) or 'none'}{more}"


def _folder_above(runtime_dir: Path | None) -> Path:
    return runtime_dir or environment.runtime_dir(environment.read_environment())


def error_of(answer: JsonAnswer) -> ContentError | UsageError:
    """Return the error that an answer of a proxy is."""
    message, hint = str(answer.body.get("error", "the proxy refused it")), str(answer.body.get("hint", ""))
    is_usage = answer.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)
    return UsageError(message, hint) if is_usage else ContentError(message, hint)
