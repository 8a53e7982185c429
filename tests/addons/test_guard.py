"""The guard by itself; what it means for a connection is in tests/attack/test_guard.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest
from mitmproxy.proxy import commands, layer, server_hooks
from mitmproxy.proxy.layers import tls
from mitmproxy.tls import ClientHelloData, TlsData

from egress.addons.guard import HookGuard, UndecidedError, error_location

DATA = cast("server_hooks.ServerConnectionHookData", SimpleNamespace())


class Noting:
    """An add-on with one hook, and things that are none."""

    server_connect = None

    def __init__(self, notes: list[str], name: str) -> None:
        self._notes = notes
        self._name = name

    def server_disconnected(self, data: object) -> None:
        self._notes.append(self._name)

    def helper(self) -> None:
        raise NotImplementedError


def disconnected() -> commands.StartHook:
    return server_hooks.ServerDisconnectedHook(DATA)


def test_runs_the_hooks_of_all_add_ons_in_their_order() -> None:
    notes: list[str] = []
    guard = HookGuard([Noting(notes, "first"), object(), Noting(notes, "second")])
    guard.run(disconnected())
    assert notes == ["first", "second"]
    assert set(guard.hooks) == {"server_disconnected"}


def test_a_hook_that_nobody_has_is_no_fault() -> None:
    HookGuard([]).run(disconnected())


def test_what_a_hook_raises_is_passed_on_and_the_others_do_not_run() -> None:
    notes: list[str] = []

    class Broken:
        def server_disconnected(self, data: object) -> None:
            raise KeyError("x")

    with pytest.raises(KeyError):
        HookGuard([Broken(), Noting(notes, "never")]).run(disconnected())
    assert not notes


def test_a_hook_that_wants_to_wait_is_refused() -> None:
    class Waiting:
        async def server_disconnected(self, data: object) -> None:
            raise NotImplementedError

    with pytest.raises(UndecidedError, match="wants to wait"):
        HookGuard([Waiting()]).run(disconnected())


def test_what_can_be_awaited_is_refused_though_it_is_no_coroutine() -> None:
    class Promise:
        def __await__(self) -> Iterator[None]:
            raise NotImplementedError

    class Promising:
        def server_disconnected(self, data: object) -> Promise:
            return Promise()

    with pytest.raises(UndecidedError, match="wants to wait"):
        HookGuard([Promising()]).run(disconnected())


UNDECIDED = {
    "no layer": layer.NextLayerHook(cast("layer.NextLayer", SimpleNamespace(layer=None))),
    "no TLS for the client": tls.TlsStartClientHook(cast("TlsData", SimpleNamespace(ssl_conn=None))),
    "no TLS for the upstream": tls.TlsStartServerHook(cast("TlsData", SimpleNamespace(ssl_conn=None))),
    "a client passed through": tls.TlsClienthelloHook(
        cast("ClientHelloData", SimpleNamespace(ignore_connection=True, establish_server_tls_first=False))
    ),
    "the upstream first": tls.TlsClienthelloHook(
        cast("ClientHelloData", SimpleNamespace(ignore_connection=False, establish_server_tls_first=True))
    ),
}


@pytest.mark.parametrize("what", UNDECIDED)
def test_what_is_left_undecided_is_refused(what: str) -> None:
    with pytest.raises(UndecidedError, match="decided nothing"):
        HookGuard([]).run(UNDECIDED[what])


def test_what_is_decided_passes() -> None:
    HookGuard([]).run(layer.NextLayerHook(cast("layer.NextLayer", SimpleNamespace(layer=object()))))
    HookGuard([]).run(tls.TlsStartClientHook(cast("TlsData", SimpleNamespace(ssl_conn=object()))))


def test_where_names_the_place_of_an_error_that_was_raised() -> None:
    with pytest.raises(UndecidedError) as caught:
        HookGuard([]).run(UNDECIDED["no layer"])
    assert re.fullmatch(r"UndecidedError at HookGuard\.run:[0-9]+", error_location(caught.value))


def test_where_names_an_error_that_was_never_raised() -> None:
    assert error_location(KeyError("secret")) == "KeyError"
