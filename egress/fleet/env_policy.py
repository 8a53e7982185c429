"""Keeps configured secrets out of the environment of sandboxes and commands, and puts dummies in their place.

The proxy names the variables that its rules read secrets from, and the process that started the proxy has
their values. Every variable for a sandbox or a command is searched for these values, in every known spelling.
The rules may change at any time, so the proxy is asked before each check; the search is rebuilt only if they
did.
Values from files and commands are known to the proxy alone. Variables that pass the first check are therefore
sent to the proxy over its user's socket, and the proxy answers whether they hold a secret: no value comes
back. A value that the proxy cannot get cannot be found.
Errors name variables, never values. If the proxy does not answer, no variable enters.

Many programs refuse to start without a key in their variable. So a sandbox gets every variable from which the
rules take a secret, with a constant that is worth nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol

from egress.errors import UsageError
from egress.fleet import control_client
from egress.runtime.environ import (
    DUMMY_SETTINGS,
    NO_KEY,
    SECRET_HINT,
    RequestedVariable,
    SandboxKind,
    build_environment,
)
from egress.runtime.errors import GatewayError
from egress.runtime.spec import NO_VALUES, Values
from egress.scrub import MIN_SECRET_BYTES, Needles
from egress.types import Secret
from egress.unix.http_connection import JsonAnswer

StatusCall = Callable[[], JsonAnswer]
FindSecretsCall = Callable[[Sequence[str]], JsonAnswer]
_MAX_SHOWN_BYTES: Final = 64 * 1024
"""Characters sent to the proxy in one request, unless a single variable is longer."""


class VariablePolicy(Protocol):
    """Decides about the variables of sandboxes and commands."""

    def check(self, variables: Values) -> None:
        """Raise for variables that must not enter a sandbox."""

    def dummies(self) -> Values:
        """Variables for programs that insist on a key; those of a sandbox's own win."""


class AllVariables:
    """The default: every variable may enter, and none is added."""

    def check(self, variables: Values) -> None:
        """Allow them."""

    def dummies(self) -> Values:
        return NO_VALUES


class EnvironmentPolicy:
    """Refuses variables that hold a secret of one proxy's rules."""

    def __init__(self, status: StatusCall, held: FindSecretsCall, environ: Mapping[str, str]) -> None:
        """`status` asks the proxy for its status, `held` which texts hold secrets. Neither is called yet."""
        self._status = status
        self._held = held
        self._environ = environ
        self._lock = threading.Lock()
        self._known: tuple[str, frozenset[str], Needles] = ("", frozenset(), Needles({}))
        """The digest of the rules, the variables they read secrets from, and the needles built from these."""

    @classmethod
    def for_proxy(cls, folder: Path, environ: Mapping[str, str]) -> EnvironmentPolicy:
        """The policy of the proxy whose sockets are in this folder."""
        return cls(
            lambda: control_client.ask(folder, "/status"),
            lambda texts: control_client.find_secrets(folder, texts),
            environ,
        )

    def __repr__(self) -> str:
        return "EnvironmentPolicy()"

    def check(self, variables: Values) -> None:
        """Raise `UsageError` if a variable holds a secret, and `GatewayError` if the proxy cannot say."""
        if not variables:
            return
        names, needles = self._current()
        # The local search comes first: it is cheap, and its values never leave this process.
        asked = [RequestedVariable(name, value) for name, value in variables.items()]
        build_environment({}, {}, needles, kind=SandboxKind.CONTAINER, asked=asked, sources=names)
        for part in _split_variables(variables):
            self._refuse_secrets(part)

    def dummies(self) -> Values:
        """A dummy for each variable that the rules read a secret from, with the settings that go with it.

        Raises `GatewayError`.
        """
        names, _ = self._current()
        # In a sandbox of a sandbox the caller's own value may be the dummy, and then counts as the secret.
        dummies = {name: NO_KEY for name in sorted(names) if self._environ.get(name, "").strip() != NO_KEY}
        settings = (DUMMY_SETTINGS[name] for name in dummies if name in DUMMY_SETTINGS)
        return {**dummies, **{name: value for each in settings for name, value in each.items()}}

    def _refuse_secrets(self, names: Mapping[str, str]) -> None:
        """Refuse secrets; `names` maps NAME=VALUE to NAME. Names are searched too, in case of a swap."""
        texts = [*names.values(), *names]
        # A single request for names and values: the proxy searches both in the same way.
        places = _secret_places(self._held(texts), len(texts))
        for index, name in enumerate(names.values()):
            if index in places:
                raise UsageError("the name of a variable holds a configured secret", SECRET_HINT)
            if index + len(names) in places:
                raise UsageError(f"the value of {name} holds a configured secret", SECRET_HINT)

    def _current(self) -> tuple[frozenset[str], Needles]:
        digest, names = _read(self._status())
        with self._lock:
            known, before, needles = self._known
            # A proxy without a digest is never trusted to be unchanged.
            if not digest or (known, before) != (digest, names):
                needles = needles_in(self._environ, names)
                self._known = (digest, names, needles)
        return names, needles


def needles_in(environ: Mapping[str, str], names: Iterable[str]) -> Needles:
    """The needles of these variables; values too short to be secrets are left out."""
    return Needles.of(
        Secret(name, value.encode("utf-8", "surrogateescape"))
        for name in sorted(names)
        if len(value := environ.get(name, "").strip()) >= MIN_SECRET_BYTES
    )


def _read(answer: JsonAnswer) -> tuple[str, frozenset[str]]:
    """The digest of the rules in force, and the variables that their secrets are read from."""
    rules = answer.body.get("rules")
    if answer.status != HTTPStatus.OK or not isinstance(rules, dict):
        raise _no_answer_error()
    digest, names = rules.get("in_force"), rules.get("variables")
    if not isinstance(digest, str) or not isinstance(names, dict):
        raise _no_answer_error()
    return digest, frozenset(map(str, names))


def _split_variables(variables: Values) -> Iterator[dict[str, str]]:
    """Group variables into requests that the proxy accepts: the name of each by its NAME=VALUE."""
    part, size = dict[str, str](), 0
    for name, value in variables.items():
        shown = f"{name}={value}"
        if part and size + len(shown) > _MAX_SHOWN_BYTES:
            yield part
            part, size = {}, 0
        part[shown] = name
        size += len(shown)
    yield part


def _secret_places(answer: JsonAnswer, count: int) -> frozenset[int]:
    """The indexes of the texts that hold a secret. Raises `GatewayError` unless the proxy judged them all."""
    found = answer.body.get("held")
    if answer.status != HTTPStatus.OK or answer.body.get("texts") != count or not isinstance(found, list):
        raise _no_answer_error()
    return frozenset(found)


def _no_answer_error() -> GatewayError:
    return GatewayError(
        "the proxy did not list the secrets of its rules",
        "run proxy and caller in the same version of egress",
    )
