"""What a call waits for is ended when the call is given up."""

from __future__ import annotations

import threading

from egress.sandbox.cancellation import (
    CancellableEvent,
    CancelScope,
    cancelled_by,
    enter_scope,
    is_cancellable,
)


def test_cancelling_ends_what_is_waited_for_now_and_later() -> None:
    scope, ended = CancelScope(), []
    with enter_scope(scope):
        assert is_cancellable()
        with cancelled_by(lambda: ended.append("past")):
            pass
        with cancelled_by(lambda: ended.append("now")):
            scope.cancel()
        with cancelled_by(lambda: ended.append("later")):
            pass
    assert ended == ["now", "later"]


def test_outside_of_a_scope_nothing_is_kept() -> None:
    assert not is_cancellable()
    with cancelled_by(lambda: None):
        assert not is_cancellable()


def test_a_moment_comes_once_and_can_be_given_up() -> None:
    moment = CancellableEvent()
    assert not moment.wait(0.01)
    scope = CancelScope()
    waiting = threading.Timer(0.05, scope.cancel)
    waiting.start()
    with enter_scope(scope):
        assert not moment.wait(30)
    moment.set()
    assert moment.wait()
    assert moment.is_set()
