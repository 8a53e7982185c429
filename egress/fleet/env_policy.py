"""Configured secrets are no variables of sandboxes, whoever asks for one that has them.

The proxy says from which variables its rules read secrets, and the process that started it has their values.
What a sandbox or a command is to be given is held against those, in every spelling that is known of them. The
rules may change at any time, so the proxy is asked each time there is something to look at; what is searched
for is put together again only when they did.

Values from files and commands are the proxy's alone. So what passed is shown to it, over the socket of its
user, and it says whether there is a secret in it: no value comes back. Where it cannot get a value, it cannot
know it either.

Errors name variables, never values. Where the proxy does not say what it has, nothing enters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

from egress.errors import UsageError
from egress.fleet import control_client
from egress.runtime.environ import SECRET_HINT, RequestedVariable, SandboxKind, build_environment
from egress.runtime.errors import GatewayError
from egress.runtime.spec import Values
from egress.scrub import MIN_SECRET_BYTES, Needles
from egress.types import Secret
from egress.unix.http_connection import JsonAnswer

StatusCall = Callable[[], JsonAnswer]
FindSecretsCall = Callable[[Sequence[str]], JsonAnswer]
_MAX_SHOWN_BYTES: Final = 64 * 1024
"""Characters that are shown to the proxy at once, unless one variable has more."""


class EnvironmentPolicy:
    """The secrets that the rules of one proxy read from the environment it was started with."""

    def __init__(self, status: StatusCall, held: FindSecretsCall, environ: Mapping[str, str]) -> None:
        """`status` asks the proxy for what it says of itself, `held` what of texts. It is not asked yet."""
        self._status = status
        self._held = held
        self._environ = environ
        self._lock = threading.Lock()
        self._known: tuple[str, frozenset[str], Needles] = ("", frozenset(), Needles({}))
        """Of which rules, from which variables, and what is searched for."""

    @classmethod
    def for_proxy(cls, folder: Path, environ: Mapping[str, str]) -> EnvironmentPolicy:
        """Those of the proxy whose sockets are in this folder."""
        return cls(
            lambda: control_client.ask(folder, "/status"),
            lambda texts: control_client.find_secrets(folder, texts),
            environ,
        )

    def __repr__(self) -> str:
        return "Withheld()"

    def check(self, variables: Values) -> None:
        """Raise `UsageError` where one of these holds a secret, and `GatewayError` where nobody can tell."""
        if not variables:
            return
        names, needles = self._current()
        asked = [RequestedVariable(name, value) for name, value in variables.items()]
        build_environment({}, {}, needles, kind=SandboxKind.CONTAINER, asked=asked, sources=names)
        for part in _split_variables(variables):
            self._refuse_secrets(part)

    def _refuse_secrets(self, names: Mapping[str, str]) -> None:
        """`names` are those of variables, by what a process would be given; each is shown by itself too."""
        texts = [*names.values(), *names]
        places = _secret_places(self._held(texts), len(texts))
        for place, name in enumerate(names.values()):
            if place in places:
                raise UsageError("the name of a variable holds a configured secret", SECRET_HINT)
            if place + len(names) in places:
                raise UsageError(f"the value of {name} holds a configured secret", SECRET_HINT)

    def _current(self) -> tuple[frozenset[str], Needles]:
        digest, names = _read(self._status())
        with self._lock:
            known, before, needles = self._known
            if not digest or (known, before) != (digest, names):
                needles = needles_in(self._environ, names)
                self._known = (digest, names, needles)
        return names, needles


def needles_in(environ: Mapping[str, str], names: Iterable[str]) -> Needles:
    """What to search for: the values of these variables, where they are long enough to be secrets."""
    return Needles.of(
        Secret(name, value.encode("utf-8", "surrogateescape"))
        for name in sorted(names)
        if len(value := environ.get(name, "").strip()) >= MIN_SECRET_BYTES
    )


def _read(answer: JsonAnswer) -> tuple[str, frozenset[str]]:
    """The rules in force, by their digest, and the variables that their secrets are read from."""
    rules = answer.body.get("rules")
    if answer.status != HTTPStatus.OK or not isinstance(rules, dict):
        raise _no_answer_error()
    digest, names = rules.get("in_force"), rules.get("variables")
    if not isinstance(digest, str) or not isinstance(names, dict):
        raise _no_answer_error()
    return digest, frozenset(map(str, names))


def _split_variables(variables: Values) -> Iterator[dict[str, str]]:
    """The names of variables by what is shown of them, in parts that the proxy takes."""
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
    """Which of so many texts hold a secret."""
    found = answer.body.get("held")
    if answer.status != HTTPStatus.OK or answer.body.get("texts") != count or not isinstance(found, list):
        raise _no_answer_error()
    return frozenset(found)


def _no_answer_error() -> GatewayError:
    return GatewayError("the proxy does not say which secrets it has", "bring it to this version")
