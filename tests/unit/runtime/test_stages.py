"""Stages reach the caller that waits for them, and nobody else."""

from __future__ import annotations

import contextvars
import threading

from egress.runtime.stages import is_reported, note_stage, reporting_stages


def test_a_stage_is_told_to_the_nearest_listener() -> None:
    outer, inner = list[str](), list[str]()
    note_stage("before")
    assert not is_reported()
    with reporting_stages(outer.append):
        note_stage("one")
        with reporting_stages(inner.append):
            note_stage("two")
        assert is_reported()
    note_stage("after")
    assert (outer, inner) == (["one"], ["two"])


def test_another_thread_has_its_own_listener() -> None:
    told = list[str]()
    with reporting_stages(told.append):
        for target in (note_stage, contextvars.copy_context().run):
            words = ("own",) if target is note_stage else (note_stage, "copied")
            thread = threading.Thread(target=target, args=words)
            thread.start()
            thread.join()
    assert told == ["copied"]
