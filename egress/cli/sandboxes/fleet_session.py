"""Open the sandboxes a command works with, and their environment."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from egress import environment
from egress.cli import folder_options, progress, render
from egress.cli.control_client import ask_proxy
from egress.cli.render import DIM
from egress.cli.sandboxes import agents, sandbox_options
from egress.cli.sandboxes.agents import Agent
from egress.cli.sandboxes.fleet_options import FleetOptions
from egress.errors import UnreadableError, UsageError
from egress.fleet import FleetInfo, RemoteRuntime, SandboxFleet, open_fleet
from egress.fleet.errors import FleetUnavailableError, ProxyFailedError
from egress.fleet.folders import SOCKET_NAME
from egress.fleet.remote import connect_if_served
from egress.fleet.runtime_choice import KUBERNETES_KIND
from egress.runtime.environ import RequestedVariable, SandboxKind, build_environment
from egress.runtime.errors import ImageMissingError
from egress.runtime.spec import Spec

if TYPE_CHECKING:
    from egress.runtime.docker.engine import DockerEngine

type Handler = Callable[[int, FrameType | None], None]

LEAVE_SIGNAL: Final = signal.SIGUSR1
"""Ends `egress up` without its sandboxes."""
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_OURS: Final = ("egress-sandbox", "egress-sandbox:latest")
"""Names of the image that Egress can build itself."""


@contextmanager
def fleet(
    source: FleetOptions,
    *,
    spec: Spec | None = None,
    image: str | None = None,
    agent: Agent | None = None,
    keep: bool = False,
    quiet: bool = False,
) -> Iterator[SandboxFleet]:
    """Open the shared fleet of `egress up`; or a private one, if options ask for it or none is running.

    `spec` is the sandbox that will be created, without its image and environment. With `image`, that image
    must exist; with `keep`, the shared fleet must. With `agent`, a private fleet without rules gets those of
    the agent's preset. A signal that would end this process unwinds it instead, so that no sandbox is left
    behind.
    """
    with on_signal(_unwind), ExitStack() as parts:
        # Checked before the fleet is opened: a private one would be started only to be refused.
        if keep:
            _check_kept(source)
        with translate_errors(image), progress.step("starting the proxy", is_quiet=quiet):
            found = parts.enter_context(
                open_fleet(
                    rules=_rules_to_name(source, agent) or None,
                    runtime=source.runtime,
                    runtime_dir=source.runtime_dir,
                    state_dir=source.state_dir,
                    audit_dir=source.audit_dir,
                    seccomp=source.seccomp,
                    options=source.proxy_options,
                    images=(image,) if image else (),
                    expected=None if spec is None else partial(_expected, spec, image, agent),
                )
            )
        # Checked again, because `egress up` may have ended in between.
        if keep and not is_shared(found):
            raise _not_kept()
        yield found


def _expected(spec: Spec, image: str | None, agent: Agent | None, engine: DockerEngine) -> Spec | None:
    """Return the sandbox with its image, if that is there."""
    # Imported here: it loads a library that other commands never need.
    from egress.runtime.docker.images.demo import made_demo_image

    # What a mount shows could change until the sandbox is created.
    if spec.mounts:
        return None
    name = image or (agents.IMAGE if agent is not None else made_demo_image(engine))
    return None if name is None else replace(spec, image=name)


def _rules_to_name(source: FleetOptions, agent: Agent | None) -> tuple[Path, ...]:
    """Return the named rules, or those of an agent's preset where there are none."""
    if agent is None or source.rules or (not source.are_own and _is_served(source)):
        return source.rules
    # Imported here: it loads the compiler of rules.
    from egress.cli.sandboxes.agent_rules import rules_for

    return rules_for(agent, source.rules, folder_options.with_state_dir(source.state_dir))


def _is_served(source: FleetOptions) -> bool:
    there = connect_if_served(served_folder(source) / SOCKET_NAME)
    if there is not None:
        there.close()
    return there is not None


@contextmanager
def on_signal(end: Handler, *more: signal.Signals) -> Iterator[None]:
    """Call `end` for signals that would end this process, including a closed terminal.

    An ignored SIGHUP stays ignored, as under `nohup`.
    """
    numbers = [*_ENDING, *more]
    # `nohup` set it to be ignored, and must keep its effect.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        numbers.remove(signal.SIGHUP)
    # Handlers are restored at the end, since tests and embedding programs have their own.
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_kept(source: FleetOptions) -> None:
    # Options for a proxy always start a private fleet, which ends with the command.
    if source.are_own or not _is_served(source):
        raise _not_kept()


def served_folder(source: FleetOptions) -> Path:
    """Return the folder in which `egress up` has its socket."""
    return source.runtime_dir or environment.runtime_dir(folder_options.with_state_dir(source.state_dir))


def _not_kept() -> UsageError:
    return UsageError(
        "--keep: only a sandbox of `egress up` can be kept",
        "start `egress up`, and give the options for rules and proxy there",
    )


@contextmanager
def translate_errors(image: str | None = None) -> Iterator[None]:
    """Report errors of opening a fleet by option, and print mistakes in rules."""
    try:
        with sandbox_options.named_by_option():
            yield
    except ImageMissingError as error:
        hint = "build it with `egress image build sandbox`" if image in _OURS else error.hint
        raise ImageMissingError(f"--image: {error.message}", hint) from None
    except ProxyFailedError as error:
        # The proxy's first line is the cause; the findings in rules follow it.
        cause, *findings = error.message.splitlines()
        for line in findings:
            render.line(line, stderr=True)
        raise ProxyFailedError(cause, error.hint, status=error.exit_status) from None


@contextmanager
def connect_served(runtime_dir: Path | None) -> Iterator[RemoteRuntime]:
    """Connect to the fleet of `egress up`. Raises `FleetUnavailableError`."""
    folder = runtime_dir or environment.runtime_dir(environment.read_environment())
    remote = connect_if_served(folder / SOCKET_NAME)
    if remote is None:
        raise not_served(folder)
    with remote:
        yield remote


def not_served(folder: Path) -> FleetUnavailableError:
    """Return the error that `egress up` does not run with this runtime folder."""
    return FleetUnavailableError(
        f"`egress up` is not running (no answer at {folder / SOCKET_NAME})",
        "start `egress up`, or name the folder of its socket with --runtime-dir",
    )


def is_shared(found: SandboxFleet) -> bool:
    """Report whether another process owns the sandboxes, so that they stay when this one ends."""
    return isinstance(found, RemoteRuntime)


def say(text: str) -> None:
    """Print progress to the error stream, apart from the output of the command."""
    render.line(("egress: ", DIM), (text, DIM), stderr=True)
    sys.stderr.flush()


def introduce(about: FleetInfo) -> None:
    """Describe a private fleet: its runtime and its rules."""
    say(about.line)
    say(f"rules: {rule_files(about)}")


def rule_files(about: FleetInfo) -> str:
    """Return the rule files that the proxy names."""
    if about.runtime_dir is None:
        return "those of the gateway"
    files = _rules(about).get("files")
    named = [str(each) for each in files] if isinstance(files, list) else []
    return ", ".join(named) or "no known file"


def image(
    about: FleetInfo,
    wanted: str | None,
    tell: Callable[[str], None] = say,
    *,
    agent: Agent | None = None,
) -> str:
    """Return the requested image, or a default: that of the agents, or a small one that may be built."""
    if wanted or about.image:
        return wanted or about.image
    if about.kind == KUBERNETES_KIND:
        raise UsageError("a sandbox on Kubernetes has no default image", "name one with --image")
    # Namespaces have no default image: the programs of this machine are there.
    if about.kind != "docker":
        return "host"
    # Imported here: each loads a library that other commands never need.
    from egress.runtime.docker.engine import DockerEngine
    from egress.runtime.docker.engine_socket import ENGINE_SOCKET
    from egress.runtime.docker.images.demo import demo_image

    engine = DockerEngine(about.engine or ENGINE_SOCKET)
    try:
        if agent is not None:
            return _agents_image(engine)
        return demo_image(engine, tell)
    finally:
        engine.close()


def _agents_image(engine: DockerEngine) -> str:
    try:
        engine.image_id(agents.IMAGE)
    except ImageMissingError:
        raise ImageMissingError(
            f"--agent: the engine has no image {agents.IMAGE}",
            "build it with `egress image build agents`, or name another one with --image",
        ) from None
    return agents.IMAGE


def variables(
    about: FleetInfo,
    asked: Sequence[RequestedVariable],
    agent: Agent | None = None,
    *,
    has_ours: bool = True,
) -> Mapping[str, str]:
    """Return the environment of a sandbox from ours, the agent's and the requested variables.

    Without ours, it is the same wherever the command is started. Reports variables that a secret needs and
    the proxy lacks. Raises `UsageError`.
    """
    preset = agent.variables(_sources(about)) if agent is not None else {}
    # Variables typed by the user win over those of the agent.
    wanted = [RequestedVariable(name, value) for name, value in preset.items()]
    made, lacking = _environment(about, [*wanted, *asked], environment.read_environment())
    for name in lacking:
        say(f"{name} is not set for the proxy, or is empty: requests that need its secret are denied")
    return made if has_ours else {each.name: made[each.name] for each in (*wanted, *asked)}


def requested_variables(about: FleetInfo, asked: Sequence[RequestedVariable]) -> Mapping[str, str]:
    """Return only the requested variables: the others were set when the sandbox was created."""
    made, _ = _environment(about, asked, environment.read_environment())
    return {each.name: made[each.name] for each in asked}


def _environment(
    about: FleetInfo, asked: Sequence[RequestedVariable], caller: Mapping[str, str]
) -> tuple[Mapping[str, str], Sequence[str]]:
    # Asked before the environment is built, so that no variable of a secret enters the sandbox.
    from egress.fleet.env_policy import needles_in

    names = _sources(about)
    kind = SandboxKind.CONTAINER if about.kind in ("docker", KUBERNETES_KIND) else SandboxKind.NAMESPACE
    # Values of the proxy's secrets are searched for, so that none enters under another name.
    made = build_environment(caller, {}, needles_in(caller, names), kind=kind, asked=asked, sources=names)
    for notice in made.notices:
        say(f"{notice.message}; {notice.hint}")
    return made.variables, [name for name, state in sorted(names.items()) if state != "set"]


def _sources(about: FleetInfo) -> Mapping[str, str]:
    """Return the variables of the proxy's secrets, with `set` or `not set`."""
    # Without a proxy there are no secrets.
    if about.runtime_dir is None:
        return {}
    found = _rules(about).get("variables")
    if not isinstance(found, dict):
        raise UnreadableError("the proxy does not report its secrets", "update it to this version")
    return {str(name): str(state) for name, state in found.items()}


def _rules(about: FleetInfo) -> Mapping[str, object]:
    """Return the proxy's status of its rules."""
    status, answer = ask_proxy("GET", "/status", None, about.runtime_dir)
    if status != 200:
        raise UnreadableError("the proxy does not report its secrets", "check its log")
    rules = answer.get("rules")
    return rules if isinstance(rules, dict) else {}


def _unwind(number: int, _frame: FrameType | None) -> None:
    # Ignore further signals: they would interrupt the removal of sandboxes.
    for each in _ENDING:
        if signal.getsignal(each) is _unwind:
            signal.signal(each, _nothing)
    raise SystemExit(128 + number)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. Unlike SIG_IGN, a handler is not inherited by child processes."""
