"""From what was asked for to a sandbox, a command in it, and its end."""

from __future__ import annotations

from collections.abc import Sequence

from egress.cli.sandboxes import agents, opened, wanted
from egress.cli.sandboxes.attach import attach, has_terminal
from egress.cli.sandboxes.wanted import Given
from egress.fleet import About, Sandboxes, Terms
from egress.runtime.environ import Asked, read_asked
from egress.runtime.spec import Command, Spec


def spec_of(fleet: Sandboxes, given: Given, *, quiet: bool = False) -> Spec:
    """The sandbox that was asked for; its image may have to be made. Raises what a wrong option deserves."""
    user, group = wanted.whose()
    return Spec(
        name=given["name"] or wanted.fresh_name(),
        image=opened.image(fleet.about, given["image"], _unsaid if quiet else opened.say),
        profile=given["profile"],
        user=user,
        group=group,
        workdir=given["workdir"],
        env=opened.variables(fleet.about, _asked(given)),
        mounts=tuple(wanted.read_mount(text) for text in given["mounted"]),
        limits=wanted.limits(given["memory"], given["cpus"], given["processes"]),
        read_only=given["read_only"],
    )


def usual_spec(about: About) -> Spec:
    """What is made for somebody who asks for nothing special, but for its name and its environment."""
    user, group = wanted.whose()
    image = opened.image(about, None)
    return Spec(name="usual", image=image, user=user, group=group, limits=wanted.limits(None, None, None))


def run_in(fleet: Sandboxes, spec: Spec, argv: tuple[str, ...], given: Given, *, keep: bool) -> int:
    """Make a sandbox, run a command in it joined to our streams, and take the sandbox away."""
    seconds = wanted.read_seconds("--timeout", given["timeout"])
    at_terminal = has_terminal()
    # What runs in a terminal cannot be given a time, but its sandbox can.
    fleet.create(spec, Terms(timeout=seconds if at_terminal else None))
    try:
        fleet.start(spec.name)
        command = Command(argv=argv, timeout=None if at_terminal else seconds, most_output=0)
        return join(fleet, spec.name, command, terminal=at_terminal)
    finally:
        if not keep:
            fleet.remove(spec.name)


def join(fleet: Sandboxes, name: str, command: Command, *, terminal: bool) -> int:
    """Run a command in a sandbox that is there, joined to our streams."""
    return attach(lambda wanted, output: fleet.spawn(name, wanted, output), command, terminal=terminal)


def _asked(given: Given) -> Sequence[Asked]:
    asked = read_asked(given["asked"])
    if given["agent"] is None:
        return asked
    named = {each.name for each in asked}
    preset = agents.find(given["agent"]).variables
    return (*(Asked(name, value) for name, value in preset.items() if name not in named), *asked)


def _unsaid(_text: str) -> None:
    """Nobody wants to know."""
