"""From what was asked for to a sandbox, a command in it, and its end.

What can be told of options by themselves is told before anything is started or made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from egress import environment
from egress.cli.sandboxes import agents, fleet_session, sandbox_options
from egress.cli.sandboxes.attach import attach, has_terminal
from egress.cli.sandboxes.sandbox_options import SandboxOptions
from egress.errors import UsageError
from egress.fleet import FleetInfo, SandboxFleet, SandboxLifetime
from egress.runtime.environ import RequestedVariable, SandboxKind, build_environment, read_requested
from egress.runtime.spec import NO_VALUES, Command, Spec, Values
from egress.sandbox.options import caller_ids
from egress.scrub import Needles


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """What was asked for: nothing is wrong with it that shows without a proxy, a runtime or an engine."""

    spec: Spec
    """Its image and its environment are still to come."""
    image: str | None
    asked: Sequence[RequestedVariable]
    seconds: float | None
    """How long its command may take."""


def read_request(given: SandboxOptions) -> SandboxRequest:
    """Read all options. Raises what a wrong one deserves, and names it."""
    user, group = caller_ids()
    with sandbox_options.named_by_option():
        spec = Spec(
            name=given["name"] or sandbox_options.fresh_name(),
            image=given["image"] or "host",
            profile=given["profile"],
            user=user,
            group=group,
            workdir=given["workdir"],
            mounts=tuple(sandbox_options.checked_mount(text) for text in given["mounted"]),
            limits=sandbox_options.limits(given["memory"], given["cpus"], given["processes"], given["disk"]),
            read_only=given["read_only"],
        )
    seconds = sandbox_options.read_seconds("--timeout", given["timeout"])
    return SandboxRequest(spec, given["image"], _asked(given), seconds)


def spec_of(fleet: SandboxFleet, wish: SandboxRequest, *, quiet: bool = False) -> Spec:
    """The sandbox that was asked for; its image may have to be made. Raises `UsageError`."""
    # Before the image: what the proxy withholds is told sooner than that can be made.
    env = fleet_session.variables(fleet.about, wish.asked)
    image = fleet_session.image(fleet.about, wish.image, _unsaid if quiet else fleet_session.say)
    return replace(wish.spec, image=image, env=env)


def default_spec(about: FleetInfo) -> Spec:
    """What is made for somebody who asks for nothing special, but for its name and its environment."""
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
    env: Values = NO_VALUES,
) -> int:
    """Make a sandbox, run a command in it joined to our streams, and take the sandbox away."""
    at_terminal = has_terminal()
    # What runs in a terminal cannot be given a time, but its sandbox can.
    fleet.create(spec, SandboxLifetime(timeout=seconds if at_terminal else None))
    try:
        fleet.start(spec.name)
        timeout = None if at_terminal else seconds
        command = Command(argv=argv, env=env, timeout=timeout, most_output=0)
        return attach_command(fleet, spec.name, command, terminal=at_terminal)
    finally:
        if not keep:
            fleet.remove(spec.name)


def attach_command(fleet: SandboxFleet, name: str, command: Command, *, terminal: bool) -> int:
    """Run a command in a sandbox that is there, joined to our streams."""
    return attach(lambda wanted, output: fleet.spawn(name, wanted, output), command, terminal=terminal)


def _asked(given: SandboxOptions) -> Sequence[RequestedVariable]:
    asked = read_requested(given["asked"])
    # Which of them are secrets is the proxy's to say. Whether they are there, and can be given, is seen here.
    try:
        build_environment(
            environment.read_environment(), {}, Needles({}), kind=SandboxKind.CONTAINER, asked=asked
        )
    except UsageError as error:
        raise UsageError(f"--env: {error.message}", error.hint) from None
    if given["agent"] is None:
        return asked
    named = {each.name for each in asked}
    preset = agents.find_agent(given["agent"]).variables
    return (*(RequestedVariable(name, value) for name, value in preset.items() if name not in named), *asked)


def _unsaid(_text: str) -> None:
    """Nobody wants to know."""
