"""Turn options into a sandbox, run a command in it, and remove it.

Mistakes in options are reported before anything is started or created.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from egress import environment
from egress.cli import progress
from egress.cli.parameter_options import read_parameters
from egress.cli.sandboxes import agents, fleet_session, sandbox_options
from egress.cli.sandboxes.agents import Agent
from egress.cli.sandboxes.command_streams import attach, has_terminal
from egress.cli.sandboxes.sandbox_options import SandboxOptions
from egress.errors import UsageError
from egress.fleet import FleetInfo, SandboxFleet, SandboxLifetime
from egress.fleet.lifetime import NO_TIME_LIMIT
from egress.runtime.environ import RequestedVariable, SandboxKind, build_environment, read_requested
from egress.runtime.errors import SandboxExistsError
from egress.runtime.spec import NO_VALUES, Command, Spec, Values
from egress.sandbox.capabilities import find_saved_image
from egress.sandbox.options import caller_ids
from egress.scrub import Needles


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """The validated options: remaining errors need a proxy, a runtime or an engine to show."""

    spec: Spec
    """Image and environment are added later."""
    image: str | None
    agent: Agent | None
    asked: Sequence[RequestedVariable]
    seconds: float | None
    """Time limit of the command."""


def read_request(given: SandboxOptions) -> SandboxRequest:
    """Read all options. Raises an error that names the wrong option."""
    user, group = caller_ids()
    with sandbox_options.named_by_option():
        spec = Spec(
            name=given["name"] or sandbox_options.fresh_name(),
            image=given["image"] or "host",
            profile=given["profile"],
            parameters=dict(read_parameters(given["params"])),
            user=user,
            group=group,
            workdir=given["workdir"],
            mounts=tuple(sandbox_options.checked_mount(text) for text in given["mounted"]),
            limits=sandbox_options.limits(given["memory"], given["cpus"], given["processes"], given["disk"]),
            read_only=given["read_only"],
        )
    seconds = sandbox_options.read_seconds("--timeout", given["timeout"])
    agent = agents.find_agent(given["agent"]) if given["agent"] is not None else None
    return SandboxRequest(spec, given["image"], agent, _asked(given), seconds)


def spec_of(
    fleet: SandboxFleet,
    request: SandboxRequest,
    *,
    snapshot: str = "",
    quiet: bool = False,
    has_our_variables: bool = True,
) -> Spec:
    """Return the requested sandbox; may build its image. Raises `UsageError`."""
    # Variables first: a refused variable should be reported before an image is built.
    env = fleet_session.variables(fleet.about, request.asked, request.agent, has_ours=has_our_variables)
    with progress.step("preparing the image", is_quiet=quiet):
        kept = find_saved_image(fleet, snapshot) if snapshot else None
        image = fleet_session.image(
            fleet.about, request.image or kept, _unsaid if quiet else fleet_session.say, agent=request.agent
        )
    return replace(request.spec, image=image, env=env)


def default_spec(about: FleetInfo) -> Spec:
    """Return the spec of a default sandbox, without name and environment."""
    user, group = caller_ids()
    image = fleet_session.image(about, None)
    return Spec(
        name="usual", image=image, user=user, group=group, limits=sandbox_options.limits(None, None, None)
    )


def run_in(
    fleet: SandboxFleet,
    spec: Spec,
    argv: tuple[str, ...],
    *,
    seconds: float | None,
    keep: bool,
    terms: SandboxLifetime = NO_TIME_LIMIT,
    quiet: bool = False,
    env: Values = NO_VALUES,
) -> int:
    """Create a sandbox, run a command in it connected to our streams, and remove the sandbox.

    A fleet of another process removes it behind our back.
    """
    at_terminal = has_terminal()
    # A command at a terminal cannot have a timeout, but its sandbox can.
    lifetime = replace(terms, timeout=seconds if at_terminal else None)
    with created(fleet, spec, lifetime, keep=keep, quiet=quiet):
        timeout = None if at_terminal else seconds
        command = Command(argv=argv, env=env, timeout=timeout, most_output=0)
        return attach_command(fleet, spec.name, command, terminal=at_terminal)


@contextmanager
def created(
    fleet: SandboxFleet, spec: Spec, terms: SandboxLifetime, *, keep: bool, quiet: bool = False
) -> Iterator[None]:
    """Create a sandbox and start it; remove it at the end, unless it is kept.

    Raises `SandboxExistsError` for the name of an existing one that would be removed.
    """
    # `create` returns the sandbox that has this name and these settings, which somebody keeps or uses.
    if not keep and spec.name in {each.name for each in fleet.list()}:
        raise SandboxExistsError(
            f"the sandbox {spec.name} exists, and would be removed at the end",
            f"use `egress exec {spec.name}`, remove it with `egress rm {spec.name}`, or choose another name",
        )
    with progress.step("creating the sandbox", is_quiet=quiet):
        fleet.create(spec, terms)
    try:
        # Inside the try: a sandbox that fails to start must be removed, too.
        with progress.step("starting the sandbox", is_quiet=quiet):
            fleet.start(spec.name)
        yield
    finally:
        if not keep:
            fleet.discard(spec.name)


def attach_command(fleet: SandboxFleet, name: str, command: Command, *, terminal: bool) -> int:
    """Run a command in an existing sandbox, connected to our streams."""
    return attach(lambda wanted, output: fleet.spawn(name, wanted, output), command, terminal=terminal)


def _asked(given: SandboxOptions) -> Sequence[RequestedVariable]:
    asked = read_requested(given["asked"])
    # Only the proxy knows which variables are secrets. Missing or invalid ones are found here.
    try:
        build_environment(
            environment.read_environment(), {}, Needles({}), kind=SandboxKind.CONTAINER, asked=asked
        )
    except UsageError as error:
        raise UsageError(f"--env: {error.message}", error.hint) from None
    return asked


def _unsaid(_text: str) -> None:
    """Drop the message."""
