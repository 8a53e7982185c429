"""The sandboxes that a command works with, and what it has to know of them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import click

from egress import environment
from egress.cli import render, rulefiles
from egress.cli.control_client import ask_proxy
from egress.cli.render import DIM
from egress.cli.sandboxes import sandbox_options
from egress.errors import UnreadableError, UsageError
from egress.fleet import FleetInfo, RemoteRuntime, SandboxFleet, open_fleet
from egress.fleet.env_policy import needles_in
from egress.fleet.errors import FleetUnavailableError, ProxyFailedError
from egress.fleet.folders import SOCKET_NAME
from egress.fleet.remote import connect_if_served
from egress.runtime.environ import RequestedVariable, SandboxKind, build_environment
from egress.runtime.errors import ImageMissingError

type Command = Callable[..., int]
type Handler = Callable[[int, FrameType | None], None]

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_OURS: Final = ("egress-sandbox", "egress-sandbox:latest")
"""An image that can be made here."""


def options(command: Command) -> Command:
    """The options of whatever opens sandboxes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS: Final = (
    click.option("--rules", type=rulefiles.FILE, multiple=True, help="Rules, as for `egress serve`."),
    click.option(
        "--runtime",
        metavar="KIND",
        help="docker, namespace, or a runtime of the engine: runsc. [docker where an engine answers]",
    ),
    click.option("--seccomp", type=rulefiles.FILE, help="A profile for containers, not the engine's own."),
    click.option("--runtime-dir", type=rulefiles.FILE, help="The folder of the sockets."),
)


@contextmanager
def fleet(
    rules: Sequence[Path],
    runtime: str | None,
    runtime_dir: Path | None,
    seccomp: Path | None,
    *,
    image: str | None = None,
    keep: bool = False,
) -> Iterator[SandboxFleet]:
    """Those that `egress up` serves; ones of this process alone where that is asked for, or none are served.

    `image` has to be there, or nothing is started; and so have those that are served, for `keep`. A signal
    that would end this process unwinds it instead, so that nothing is left behind.
    """
    with on_signal(_unwind), ExitStack() as parts:
        if keep:
            _check_kept(rules, runtime_dir, seccomp)
        with translate_errors(image):
            found = parts.enter_context(
                open_fleet(
                    rules=tuple(rules) or None,
                    runtime=runtime,
                    runtime_dir=runtime_dir,
                    seccomp=seccomp,
                    images=(image,) if image else (),
                )
            )
        if keep and not is_shared(found):
            raise _not_kept()
        yield found


@contextmanager
def on_signal(end: Handler, *more: signal.Signals) -> Iterator[None]:
    """Meanwhile have signals that would end this process call this instead: of a terminal that closes too.

    That one stays ignored where it is, as under `nohup`.
    """
    numbers = [*_ENDING, *more]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        numbers.remove(signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_kept(rules: Sequence[Path], runtime_dir: Path | None, seccomp: Path | None) -> None:
    folder = runtime_dir or environment.runtime_dir(environment.read_environment())
    there = None if rules or seccomp else connect_if_served(folder / SOCKET_NAME)
    if there is None:
        raise _not_kept()
    there.close()


def _not_kept() -> UsageError:
    return UsageError(
        "--keep: a sandbox of this process alone cannot be kept",
        "start `egress up`, and leave out --rules, --seccomp and another --runtime",
    )


@contextmanager
def translate_errors(image: str | None = None) -> Iterator[None]:
    """Tell what keeps sandboxes from being opened by the option that it came by, and mistakes in rules."""
    try:
        with sandbox_options.named_by_option():
            yield
    except ImageMissingError as error:
        hint = "`egress image build sandbox` makes it" if image in _OURS else error.hint
        raise ImageMissingError(f"--image: {error.message}", hint) from None
    except ProxyFailedError as error:
        cause, *findings = error.message.splitlines()
        for line in findings:
            render.line(line, stderr=True)
        raise ProxyFailedError(cause, error.hint, status=error.exit_status) from None


@contextmanager
def connect_served(runtime_dir: Path | None) -> Iterator[RemoteRuntime]:
    """Those that `egress up` serves. Raises `FleetUnavailableError`."""
    folder = runtime_dir or environment.runtime_dir(environment.read_environment())
    remote = connect_if_served(folder / SOCKET_NAME)
    if remote is None:
        raise FleetUnavailableError(
            f"no sandboxes are served here: nobody answers at {folder / SOCKET_NAME}",
            "start them with `egress up`, or name the folder of their socket with --runtime-dir",
        )
    with remote:
        yield remote


def is_shared(found: SandboxFleet) -> bool:
    """Whether the sandboxes are those of another process, and stay when this one ends."""
    return isinstance(found, RemoteRuntime)


def say(text: str) -> None:
    """A word on what is going on, beside the output of the command."""
    render.line(("egress: ", DIM), (text, DIM), stderr=True)
    sys.stderr.flush()


def introduce(about: FleetInfo) -> None:
    """Say what the sandboxes of this process alone are, and by which rules they live."""
    say(about.line)
    say(f"by the rules of {rule_files(about)}")


def rule_files(about: FleetInfo) -> str:
    """The files that the proxy has its rules from, as it names them."""
    files = _rules(about).get("files")
    named = [str(each) for each in files] if isinstance(files, list) else []
    return ", ".join(named) or "no file that the proxy names"


def image(about: FleetInfo, wanted: str | None, tell: Callable[[str], None] = say) -> str:
    """The image that was asked for, or the one that is there without asking: it may have to be made."""
    if wanted:
        return wanted
    if about.kind != "docker":
        return "host"
    # Each brings a library with it that other commands never need.
    from egress.runtime.docker.engine import DockerEngine
    from egress.runtime.docker.images.demo import demo_image

    engine = DockerEngine()
    try:
        return demo_image(engine, tell)
    finally:
        engine.close()


def variables(about: FleetInfo, asked: Sequence[RequestedVariable]) -> Mapping[str, str]:
    """What of our environment enters a sandbox, and what was asked for. Raises `UsageError`.

    Says which variables the proxy was to take a secret from and does not have.
    """
    made, lacking = _environment(about, asked, environment.read_environment())
    for name in lacking:
        say(f"{name} is not set where the proxy runs: requests that need its secret are denied")
    return made


def requested_variables(about: FleetInfo, asked: Sequence[RequestedVariable]) -> Mapping[str, str]:
    """Only what was asked for: the rest has been settled when the sandbox was made."""
    made, _ = _environment(about, asked, environment.read_environment())
    return {each.name: made[each.name] for each in asked}


def _environment(
    about: FleetInfo, asked: Sequence[RequestedVariable], caller: Mapping[str, str]
) -> tuple[Mapping[str, str], Sequence[str]]:
    names = _sources(about)
    kind = SandboxKind.CONTAINER if about.kind == "docker" else SandboxKind.NAMESPACE
    made = build_environment(caller, {}, needles_in(caller, names), kind=kind, asked=asked, sources=names)
    for notice in made.notices:
        say(f"{notice.message}; {notice.hint}")
    return made.variables, [name for name, state in sorted(names.items()) if state != "set"]


def _sources(about: FleetInfo) -> Mapping[str, str]:
    """The variables that secrets of the proxy are read from, and whether they are set there."""
    if about.runtime_dir is None:
        return {}
    found = _rules(about).get("variables")
    if not isinstance(found, dict):
        raise UnreadableError("the proxy does not say which secrets it has", "bring it to this version")
    return {str(name): str(state) for name, state in found.items()}


def _rules(about: FleetInfo) -> Mapping[str, object]:
    """What the proxy says of its rules."""
    status, answer = ask_proxy("GET", "/status", None, about.runtime_dir)
    if status != 200:
        raise UnreadableError("the proxy does not say which secrets it has", "look into its log")
    rules = answer.get("rules")
    return rules if isinstance(rules, dict) else {}


def _unwind(number: int, _frame: FrameType | None) -> None:
    # One is enough: another would cut short what is being taken away.
    for each in _ENDING:
        if signal.getsignal(each) is _unwind:
            signal.signal(each, _nothing)
    raise SystemExit(128 + number)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Go on. Unlike a signal that is ignored, this holds for no process that is begun."""
