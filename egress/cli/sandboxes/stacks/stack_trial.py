"""Test the HTTPS clients of an image in a sandbox: whether they trust the proxy and get a credential.

Rules, secret and server are made for the trial and end with it. A client trusts the proxy if its request
reached the server through the proxy, regardless of its own output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from egress.cli.sandboxes import sandbox_options
from egress.cli.sandboxes.stacks.known_stacks import STACKS, Stack
from egress.cli.sandboxes.stacks.trial_upstream import HOST, TrialUpstream
from egress.fleet import SandboxFleet
from egress.fleet.opening import open_embedded
from egress.fleet.runtime_choice import RuntimeChoice
from egress.runtime.spec import Command, Spec
from egress.sandbox.options import caller_ids

_STACK_TIMEOUT: Final = 120.0
_MAX_OUTPUT_BYTES: Final = 64 * 1024
_MAX_MESSAGE_CHARS: Final = 200
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")
_SECRET: Final = "no-secret-but-the-one-of-a-trial"
_RULES: Final = """\
version: 1
secrets:
  trial: {{from: "file:{secret}", hosts: ["{host}:{port}"]}}
hosts:
  {host}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow: all
    inject: [{{bearer: trial}}]
"""
_IN_A_FOLDER: Final = 'cd "$(mktemp -d)" && '
_INJECTION: Final = "its request arrived without the credential, which is a bug in Egress: please report it"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackResult:
    """The result for one stack."""

    stack: str
    version: str
    trusts: bool
    injected: bool
    cure: str = ""
    """The cure if a check failed."""
    said: str = ""
    """The last line of output in that case."""


@dataclass(frozen=True, slots=True)
class AbsentStack:
    """A stack that is not in the image."""

    stack: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StackTrial:
    """A fleet with its own proxy, and the server for the requests."""

    fleet: SandboxFleet
    upstream: TrialUpstream

    def try_stacks(
        self, image: str, stacks: tuple[Stack, ...] = STACKS
    ) -> Iterator[StackResult | AbsentStack]:
        """Create a sandbox of the image and test each stack. Raises errors of creating it."""
        user, group = caller_ids()
        spec = Spec(
            name=sandbox_options.fresh_name(),
            image=image,
            user=user,
            group=group,
            ports=(self.upstream.port,),
        )
        self.fleet.create(spec)
        try:
            self.fleet.start(spec.name)
            for stack in stacks:
                yield self._tried(spec.name, stack)
        finally:
            self.fleet.remove(spec.name)

    def _tried(self, name: str, stack: Stack) -> StackResult | AbsentStack:
        status, text = self._ran(name, stack, stack.version)
        # The version command is the test for presence.
        if status:
            return AbsentStack(stack.name)
        _, said = self._ran(name, stack, _IN_A_FOLDER + stack.ask)
        # The server is the witness: a program's own output could claim anything.
        credentials = self.upstream.seen(_page(stack))
        # The server's view counts, because a client's output can lie or be empty.
        trusts, injected = bool(credentials), f"Bearer {_SECRET}" in credentials
        found = StackResult(stack=stack.name, version=_version(text), trusts=trusts, injected=injected)
        if trusts and injected:
            return found
        return replace(found, cure=_INJECTION if trusts else stack.cure, said=_last(said))

    def _ran(self, name: str, stack: Stack, line: str) -> tuple[int, str]:
        at = f"{HOST}:{self.upstream.port}"
        told = {"AT": at, "NAME": _page(stack), "URL": f"https://{at}/{_page(stack)}", "HOME": "/tmp"}  # noqa: S108
        command = Command(
            argv=("/bin/sh", "-c", line), env=told, timeout=_STACK_TIMEOUT, most_output=_MAX_OUTPUT_BYTES
        )
        result = self.fleet.exec(name, command)
        return result.exit_code, result.stdout + result.stderr


@contextmanager
def open_trial(
    choice: RuntimeChoice, environ: Mapping[str, str], folder: Path, private: Path, now: int
) -> Iterator[StackTrial]:
    """Start the server and proxy of a trial. `private` is an empty folder of this user alone."""
    with TrialUpstream(private, now) as upstream:
        secret, rules = private / "secret", private / "hosts.yaml"
        for place, text in (
            (secret, _SECRET),
            (rules, _RULES.format(secret=secret, host=HOST, port=upstream.port)),
        ):
            # The mode is set before the content exists.
            place.touch(0o600)
            place.write_text(text, "utf-8")
        # A separate audit log: the trial must not appear among real requests.
        apart = {**environ, "EGRESS_AUDIT_DIR": str(private / "audit")}
        options = ("--upstream-ca", str(upstream.trusted), "--resolve", f"{HOST}=127.0.0.1")
        with open_embedded(lambda: choice, apart, folder, [rules], options=options) as fleet:
            yield StackTrial(fleet=fleet, upstream=upstream)


def _page(stack: Stack) -> str:
    return stack.name.replace(" ", "-")


def _version(text: str) -> str:
    found = _VERSION.search(text)
    return found[0][:40] if found else "?"


def _last(text: str) -> str:
    """Return the last line of output, made harmless: the program is untrusted."""
    lines = [line for line in text.splitlines() if line.strip()]
    return (
        "".join(letter for letter in lines[-1] if letter.isprintable())[:_MAX_MESSAGE_CHARS] if lines else ""
    )
