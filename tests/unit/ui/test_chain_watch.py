"""Whether the log is as the proxy wrote it, found out beside the pages."""

from __future__ import annotations

import asyncio
import json
import sys

from egress.ui.chain_watch import ChainStatus, ChainWatch, read


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def checked(command: list[str]) -> ChainStatus:
    watch = ChainWatch(command, clock=lambda: 100.0)
    asyncio.run(watch.check())
    return watch.chain()


def test_claims_nothing_before_it_has_looked() -> None:
    assert ChainWatch(()).chain() == ChainStatus("unchecked")


def test_a_sound_log_is_sound() -> None:
    output = {"ok": True, "lines": 7, "faults": [], "newest": 7, "mac": "ab"}
    found = checked(python(f"print({json.dumps(output)!r})"))
    assert (found.word, found.lines, found.newest, found.age) == ("sound", 7, "7 ab", 0.0)


def test_what_was_deleted_before_its_beginning_is_told() -> None:
    told = "with line 9; 2 files before it, 70 bytes, deleted by root at 2026-03-01T09:30:00.000123Z"
    output = {"ok": True, "lines": 7, "faults": [], "newest": 16, "mac": "ab", "pruning": {"told": told}}
    assert read(json.dumps(output).encode()).begins == told
    assert read(json.dumps({**output, "pruning": None}).encode()).begins == ""


def test_a_log_of_several_chains_has_an_end_for_each() -> None:
    output = {"ok": True, "lines": 7, "faults": [], "newest": 7, "mac": "ab", "chains": [{}, {}, {}]}
    assert read(json.dumps(output).encode()).newest.startswith("7 ab, and those of 2 more chains")
    assert read(json.dumps({**output, "chains": [{}]}).encode()).newest == "7 ab"
    assert read(json.dumps({**output, "chains": 7}).encode()).newest == "7 ab"


def test_faults_are_told() -> None:
    fault = {"file": "audit-000001.jsonl", "line": 3, "message": "changed"}
    found = read(json.dumps({"ok": False, "faults": [fault] * 60}).encode())
    assert (found.word, len(found.faults), found.more) == ("broken", 50, 10)
    assert found.faults[0] == "audit-000001.jsonl:3: changed"


def test_what_could_not_be_checked_is_not_sound() -> None:
    failed = checked(python("import sys; print('error: no key', file=sys.stderr); sys.exit(3)"))
    assert (failed.word, failed.note) == ("unknown", "error: no key")
    assert checked(python("import sys; sys.exit(1)")).word == "unknown"
    assert checked(["/nowhere/egress"]).word == "unknown"


def test_an_answer_that_cannot_be_read_is_not_sound() -> None:
    for output in (b"", b"[]", b"{}", b'{"ok": 1}', b"\xff", b"[" * 100_000):
        assert read(output).word == "unknown"


def test_says_how_old_it_is() -> None:
    times = iter((0.0, 1000.0))
    watch = ChainWatch(python("print('{\"ok\": true}')"), clock=times.__next__)
    asyncio.run(watch.check())
    found = watch.chain()
    assert found.age == 1000.0
    assert found.is_old
    assert not found.is_checking
