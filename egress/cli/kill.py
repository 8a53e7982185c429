"""`egress kill`: revoke a sandbox, host or secret immediately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path

import click

from egress.cli import folder_options, render
from egress.cli.control_client import ask_proxy
from egress.cli.proxy_choice import MAX_AT_ONCE, chosen_folders
from egress.cli.render import BAD, BOLD, GOOD, count
from egress.control_client import NoProxyError
from egress.errors import ContentError, EgressError, UnreadableError, UsageError
from egress.fleet.embedded_proxy import SANDBOX_NAME
from egress.unix.http_connection import JsonAnswer

_MAX_NAMES = 50
"""Names that a hint lists."""
_AFTER = {
    "sandbox": "it cannot connect",
    "host": "no sandbox can connect to it",
    "secret": "it is not injected",
}


@click.command()
@click.argument("name")
@click.option("--sandbox", "kind", flag_value="sandbox", help="NAME is a sandbox.")
@click.option("--host", "kind", flag_value="host", help="NAME is a host or a host pattern.")
@click.option("--secret", "kind", flag_value="secret", help="NAME is a secret.")
@click.option("--undo", is_flag=True, help="Undo the revocation.")
@click.option("--keep", is_flag=True, help="Keep a host or secret revoked after a restart, too.")
@click.option("--run", metavar="ID", help="Only in this run. [all that are running]")
@folder_options.of_running
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def kill(
    name: str,
    kind: str | None,
    undo: bool,
    keep: bool,
    run: str | None,
    runtime_dir: Path | None,
    as_json: bool,
) -> int:
    """Revoke a sandbox, host or secret in every proxy of this user, immediately.

    Open connections of it are closed, and new ones refused. The kind of NAME is detected by the name. The
    rules are not changed: this is for emergencies. It holds until you undo it, across reloads and whatever
    value the source of a secret gives; with --keep across restarts, too.

    \b
    Examples:
      egress kill api.example.com
      egress kill --undo api.example.com
      egress kill --secret deploy-token --keep
    """
    if undo and keep:
        raise click.UsageError("--undo ends a revocation; leave --keep away.")
    body = {"name": name, "kind": kind, "undo": undo, **({"keep": True} if keep else {})}
    replies = _ask_all(body, runtime_dir, run)
    done = _joined([reply for reply in replies if reply[0] == HTTPStatus.OK])
    wrong = _error(replies, kind, is_done=done is not None)
    if done is None and wrong is not None:
        raise wrong
    is_kept = done is not None and done.get("kept") is True
    if as_json:
        render.data(done)
    elif done is not None:
        _say(str(done["kind"]), str(done["name"]), done, undo=undo)
    # What could be revoked is revoked and told before what could not.
    if wrong is not None:
        raise wrong
    if keep and not is_kept and not as_json:
        # A proxy of an older version takes no notice of the wish.
        raise ContentError("it is revoked until the next restart only", "restart the proxy with this version")
    return int(keep and not is_kept)


def _ask_all(body: Mapping[str, object], runtime_dir: Path | None, run: str | None) -> list[JsonAnswer]:
    """Ask every proxy with this runtime folder, or that of one run."""
    folders = chosen_folders(runtime_dir, run)
    # All at once: a proxy that hangs must not hold up what is revoked in the others.
    with ThreadPoolExecutor(MAX_AT_ONCE) as threads:
        found = list(threads.map(lambda folder: _ask(body, folder), folders))
    replies = [reply for reply in found if reply is not None]
    # Without any proxy that is the error to tell.
    return replies or [ask_proxy("POST", "/kill", body, runtime_dir)]


def _ask(body: Mapping[str, object], folder: Path) -> JsonAnswer | None:
    """Ask a proxy; None if it has ended since it was listed: there is nothing left to revoke."""
    try:
        return ask_proxy("POST", "/kill", body, folder)
    except NoProxyError:
        return None
    except UnreadableError as error:
        return JsonAnswer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": error.message, "hint": error.hint})


def _joined(replies: Sequence[JsonAnswer]) -> dict[str, object] | None:
    """Return the answers of several proxies as one; None without any."""
    if not replies:
        return None
    answers = [answer for _, answer in replies]
    joined = dict(answers[0])
    joined["connections"] = sum(int(str(answer["connections"])) for answer in answers)
    joined["known"] = any(answer["known"] for answer in answers)
    if "kept" in joined:
        joined["kept"] = all(answer.get("kept") is True for answer in answers)
    if len(answers) > 1:
        joined["runs"] = len(answers)
    return joined


def _error(replies: Sequence[JsonAnswer], kind: str | None, *, is_done: bool) -> EgressError | None:
    """Return the gravest error of the proxies; none that a name is unknown if another proxy knew it."""
    wrong = [reply for reply in replies if reply[0] != HTTPStatus.OK]
    if is_done:
        wrong = [reply for reply in wrong if reply[1].get("unknown") is not True]
    if not wrong:
        return None
    # A failure comes before a name that means two things, and that before one that means nothing.
    status, answer = min(wrong, key=_gravity)
    hint = str(answer.get("hint", ""))
    if answer.get("unknown") is True:
        hint = "; ".join(filter(None, (_known_names(wrong, kind), hint)))
    # The name fits no kind, or several: guessing in an emergency could revoke the wrong thing.
    if status == HTTPStatus.CONFLICT:
        return UsageError(str(answer.get("error", "")), hint)
    return ContentError(str(answer.get("error", "the proxy refused the request")), hint)


def _known_names(replies: Sequence[JsonAnswer], kind: str | None) -> str:
    """Return the names that could have been meant, of all proxies; empty where there is no list."""
    lists = [answer.get("names") for _, answer in replies]
    # A proxy of an older version has them in its hint. The name of an embedded proxy is no sandbox's.
    told = {str(name) for names in lists if isinstance(names, list) for name in names} - {SANDBOX_NAME}
    if kind == "host" or not any(isinstance(names, list) for names in lists):
        return ""
    shown, rest = sorted(told)[:_MAX_NAMES], len(told) - _MAX_NAMES
    more = [f"and {rest} more"] if rest > 0 else []
    return f"the {'secrets' if kind == 'secret' else 'sandboxes'} are: {', '.join([*shown, *more]) or 'none'}"


def _gravity(reply: JsonAnswer) -> tuple[bool, bool]:
    return reply[0] == HTTPStatus.CONFLICT, reply[1].get("unknown") is True


def _say(kind: str, name: str, answer: Mapping[str, object], *, undo: bool) -> None:
    # Undoing an unknown revocation is harmless, but likely a typo.
    if undo and not answer["known"]:
        render.line(f"the {kind} {name} was not revoked")
    elif undo:
        render.line(("restored: ", GOOD), f"the {kind} ", (name, BOLD), _in_runs(answer))
    else:
        closed = count(int(str(answer["connections"])), "connection")
        render.line(("revoked: ", BAD), f"the {kind} ", (name, BOLD), f"{_in_runs(answer)}, {closed} closed")
        until = "" if answer.get("kept") is True else " or a restart"
        render.line(f"  {_AFTER[kind]} until `egress kill --undo`{until}")


def _in_runs(answer: Mapping[str, object]) -> str:
    return f" in {answer['runs']} runs" if "runs" in answer else ""
