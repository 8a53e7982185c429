"""What a call waits for is ended when the call is given up."""

from __future__ import annotations

import threading

from egress.sandbox.scope import Moment, Scope, can_be_ended, ended_by, within


def test_cancelling_ends_what_is_waited_for_now_and_later() -> None:
    scope, ended = Scope(), []
    with within(scope):
        assert can_be_ended()
        with ended_by(lambda: ended.append("past")):
            pass
        with ended_by(lambda: ended.append("now")):
            scope.cancel()
        with ended_by(lambda: ended.append("later")):
            pass
    assert ended == ["now", "later"]


def test_outside_of_a_scope_nothing_is_kept() -> None:
    assert not can_be_ended()
    with ended_by(lambda: None):
        assert not can_be_ended()


def test_a_moment_comes_once_and_can_be_given_up() -> None:
    moment = Moment()
    assert not moment.wait(0.01)
    scope = Scope()
    waiting = threading.Timer(0.05, scope.cancel)
    waiting.start()
    with within(scope):
        assert not moment.wait(30)
    moment.come()
    assert moment.wait()
    assert moment.has_come()
