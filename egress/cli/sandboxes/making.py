"""From what was asked for to a sandbox, a command in it, and its end.

What can be told of options by themselves is told before anything is started or made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from egress import settings
from egress.cli.sandboxes import agents, opened, wanted
from egress.cli.sandboxes.attach import attach, has_terminal
from egress.cli.sandboxes.wanted import Given
from egress.errors import UsageError
from egress.fleet import About, Sandboxes, Terms
from egress.runtime.environ import Asked, Kind, environment, read_asked
from egress.runtime.spec import NOTHING, Command, Spec, Values
from egress.sandbox.options import whose
from egress.scrub import Needles


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for: nothing is wrong with it that shows without a proxy, a runtime or an engine."""

    spec: Spec
    """Its image and its environment are still to come."""
    image: str | None
    asked: Sequence[Asked]
    seconds: float | None
    """How long its command may take."""


def wish(given: Given) -> Wish:
    """Read all options. Raises what a wrong one deserves, and names it."""
    user, group = whose()
    with wanted.by_option():
        spec = Spec(
            name=given["name"] or wanted.fresh_name(),
            image=given["image"] or "host",
            profile=given["profile"],
            user=user,
            group=group,
            workdir=given["workdir"],
            mounts=tuple(wanted.checked_mount(text) for text in given["mounted"]),
            limits=wanted.limits(given["memory"], given["cpus"], given["processes"], given["disk"]),
            read_only=given["read_only"],
        )
    seconds = wanted.read_seconds("--timeout", given["timeout"])
    return Wish(spec, given["image"], _asked(given), seconds)


def spec_of(fleet: Sandboxes, wish: Wish, *, quiet: bool = False) -> Spec:
    """The sandbox that was asked for; its image may have to be made. Raises `UsageError`."""
    # Before the image: what the proxy withholds is told sooner than that can be made.
    env = opened.variables(fleet.about, wish.asked)
    image = opened.image(fleet.about, wish.image, _unsaid if quiet else opened.say)
    return replace(wish.spec, image=image, env=env)


def usual_spec(about: About) -> Spec:
    """What is made for somebody who asks for nothing special, but for its name and its environment."""
    user, group = whose()
    image = opened.image(about, None)
    return Spec(name="usual", image=image, user=user, group=group, limits=wanted.limits(None, None, None))


def run_in(
    fleet: Sandboxes,
    spec: Spec,
    argv: tuple[str, ...],
    *,
    seconds: float | None,
    keep: bool,
    env: Values = NOTHING,
) -> int:
    """Make a sandbox, run a command in it joined to our streams, and take the sandbox away."""
    at_terminal = has_terminal()
    # What runs in a terminal cannot be given a time, but its sandbox can.
    fleet.create(spec, Terms(timeout=seconds if at_terminal else None))
    try:
        fleet.start(spec.name)
        timeout = None if at_terminal else seconds
        command = Command(argv=argv, env=env, timeout=timeout, most_output=0)
        return join(fleet, spec.name, command, terminal=at_terminal)
    finally:
        if not keep:
            fleet.remove(spec.name)


def join(fleet: Sandboxes, name: str, command: Command, *, terminal: bool) -> int:
    """Run a command in a sandbox that is there, joined to our streams."""
    return attach(lambda wanted, output: fleet.spawn(name, wanted, output), command, terminal=terminal)


def _asked(given: Given) -> Sequence[Asked]:
    asked = read_asked(given["asked"])
    # Which of them are secrets is the proxy's to say. Whether they are there, and can be given, is seen here.
    try:
        environment(settings.environment(), {}, Needles({}), kind=Kind.CONTAINER, asked=asked)
    except UsageError as error:
        raise UsageError(f"--env: {error.message}", error.hint) from None
    if given["agent"] is None:
        return asked
    named = {each.name for each in asked}
    preset = agents.find(given["agent"]).variables
    return (*(Asked(name, value) for name, value in preset.items() if name not in named), *asked)


def _unsaid(_text: str) -> None:
    """Nobody wants to know."""
