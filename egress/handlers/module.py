"""A file of handlers: found, checked and loaded.

The file is code of the operator, and runs with the rights of the process that loads it. So it is taken only
from the operator's own option, and only if nobody else could have written it.
"""

from __future__ import annotations

import inspect
import os
import stat
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from egress.errors import ContentError, UnreadableError, reason_of
from egress.handlers.interface import Handler, HandlerTerms, terms_of
from egress.rules.decide.outbound import HANDLER_NAME, HandlerChoice, Outbound
from egress.rules.language.hosts import HostError, HostPattern, parse_host_pattern
from egress.types import HandlerUse

BY_HOST: Final = "outbound_by_host"
CATCH_ALL: Final = "outbound"
NAMED: Final = "outbound_handlers"
_MODULE_NAME: Final = "egress_operator_handlers"


@dataclass(frozen=True, slots=True)
class LoadedHandler:
    """A handler, and what it asks for."""

    function: Handler
    terms: HandlerTerms

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


@dataclass(frozen=True, slots=True)
class HandlerModule:
    """The handlers of a file."""

    path: Path
    handlers: Mapping[str, LoadedHandler]
    static: HandlerChoice

    @property
    def outbound(self) -> Outbound:
        """The handlers as the rules know them."""
        return Outbound({name: each.terms.body for name, each in self.handlers.items()}, self.static)


def module_of(path: Path, source: bytes) -> HandlerModule:
    """Run a file of handlers that was read. Raises `ContentError`."""
    module = types.ModuleType(_MODULE_NAME)
    module.__file__ = str(path)
    # Annotations and dataclasses of the file look their module up.
    sys.modules[_MODULE_NAME] = module
    try:
        exec(compile(source, str(path), "exec"), vars(module))  # noqa: S102 - the operator's own code
    except BaseException as error:  # noqa: BLE001 - also one that would end the process
        raise ContentError(
            f"{path}{error_line(error, path)}: the handlers cannot be loaded ({type(error).__name__})",
            f"run it by itself: python {path}",
        ) from None
    return _module_of(path, vars(module))


def read_module(path: Path) -> bytes:
    """Read a file of handlers, unless somebody else can write it: it would run as this user.

    Raises `UnreadableError`.
    """
    try:
        # What is checked is what is read, wherever the name leads by then. Nothing waits for a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _check_file(path, os.fstat(descriptor), path.resolve().parent.stat())
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UnreadableError(
            f"{path} cannot be read: {reason_of(error)}", "name a file of handlers"
        ) from None


def _check_file(path: Path, found: os.stat_result, folder: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnreadableError(f"{path} is not a file", "name a file of handlers")
    for what, each in ((str(path), found), (f"the folder of {path}", folder)):
        is_sticky = stat.S_ISDIR(each.st_mode) and each.st_mode & stat.S_ISVTX
        if each.st_uid not in (0, os.geteuid()) or (each.st_mode & 0o022 and not is_sticky):
            raise UnreadableError(
                f"{what} can be written by another user, and would run as this one",
                "own it, and remove the write permission of group and others",
            )


def error_line(error: BaseException, path: Path) -> str:
    """Return the last line of the file that the error went through; nothing of what it says."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f":{error.lineno}"
    lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == str(path)]
    return f":{lines[-1]}" if lines else ""


def _module_of(path: Path, names: Mapping[str, object]) -> HandlerModule:
    handlers: dict[str, LoadedHandler] = {}

    def add(name: str, function: object, said_in: str) -> str:
        if not callable(function):
            raise ContentError(f"{path}: {said_in} is not a function", "name a function there")
        if not HANDLER_NAME.fullmatch(name):
            raise ContentError(
                f"{path}: {name!r} ({said_in}) is not the name of a handler",
                "give the function a name of letters, digits, _ and -, and no lambda",
            )
        known = handlers.get(name)
        if known is not None and known.function is not function:
            raise ContentError(f"{path}: two handlers are called {name}", "give each its own name")
        handlers[name] = LoadedHandler(function, terms_of(function) or HandlerTerms())
        return name

    # Names that the file gives come before those of functions: a function may have one in both places.
    for name, value in names.items():
        if terms_of(value) is not None:
            add(getattr(value, "__name__", name), value, name)
    for name, value in _mapping(path, names, NAMED).items():
        add(name, value, f"{NAMED}[{name!r}]")
    by_host = {
        _pattern(path, host): HandlerUse(_name_in(handlers, value, add, f"{BY_HOST}[{host!r}]"))
        for host, value in _mapping(path, names, BY_HOST).items()
    }
    function = names.get(CATCH_ALL)
    catch_all = None if function is None else HandlerUse(_name_in(handlers, function, add, CATCH_ALL))
    if not handlers:
        raise ContentError(
            f"{path} has no handlers", f"mark a function with @handler, or write {BY_HOST} = {{...}}"
        )
    return HandlerModule(path, handlers, HandlerChoice(by_host, catch_all))


def _name_in(
    handlers: Mapping[str, LoadedHandler],
    function: object,
    add: Callable[[str, object, str], str],
    said_in: str,
) -> str:
    known = next((name for name, each in handlers.items() if each.function is function), None)
    return known or add(getattr(function, "__name__", ""), function, said_in)


def _mapping(path: Path, names: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = names.get(name, {})
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ContentError(
            f"{path}: {name} is not a mapping from texts to functions", f"write {name} = {{...}}"
        )
    return value


def _pattern(path: Path, host: str) -> HostPattern:
    try:
        return parse_host_pattern(host)
    except HostError as error:
        raise ContentError(f"{path}: {BY_HOST}[{host!r}]: {error.message}", error.hint) from None
