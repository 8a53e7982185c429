"""The wrapper around every hook and every layer: no byte passes after a fault.

mitmproxy logs what an add-on raises and lets the traffic go on. Here a hook that raises, that returns
something to be awaited, or that leaves undecided what it was asked for, ends the connection.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import structlog
from mitmproxy.hooks import all_hooks
from mitmproxy.proxy import commands, layer

from egress.addons.mitm_layers import TlsClienthelloHook, TlsStartClientHook, TlsStartServerHook

log = structlog.get_logger(__name__)

Hook = Callable[..., object]


class UndecidedError(Exception):
    """A hook, or a layer, made no decision."""


class HookGuard:
    """Runs the hooks of a fixed list of add-ons, in their order."""

    def __init__(self, addons: Sequence[object]) -> None:
        self._hooks: Final[dict[str, tuple[Hook, ...]]] = {
            name: found for name in all_hooks if (found := tuple(_methods(addons, name)))
        }

    @property
    def hooks(self) -> dict[str, tuple[Hook, ...]]:
        """Every hook that an add-on of the list implements."""
        return dict(self._hooks)

    def run(self, hook: commands.StartHook) -> None:
        """Run a hook; raises whatever an add-on raises, and `UndecidedError` where nothing was decided."""
        arguments = hook.args()
        for method in self._hooks.get(hook.name, ()):
            result = method(*arguments)
            if inspect.isawaitable(result):
                if inspect.iscoroutine(result):
                    result.close()
                raise UndecidedError(f"the hook {hook.name} wants to wait")
        if not _is_decided(hook):
            raise UndecidedError(f"the hook {hook.name} decided nothing")


def _methods(addons: Iterable[object], name: str) -> Iterator[Hook]:
    for addon in addons:
        method = getattr(addon, name, None)
        if callable(method):
            yield method


def _is_decided(hook: commands.StartHook) -> bool:
    """Tell whether the hook has answered its question; mitmproxy would go on without an answer."""
    if isinstance(hook, layer.NextLayerHook):
        return hook.data.layer is not None
    if isinstance(hook, TlsStartClientHook | TlsStartServerHook):
        return hook.data.ssl_conn is not None
    if isinstance(hook, TlsClienthelloHook):
        return not hook.data.ignore_connection and not hook.data.establish_server_tls_first
    return True


def error_location(error: BaseException) -> str:
    """Return the type and place of an exception without its message, which may hold a secret."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    spot = f" at {trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}" if trace is not None else ""
    return f"{type(error).__name__}{spot}"
