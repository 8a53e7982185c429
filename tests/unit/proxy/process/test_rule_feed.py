"""Rule files as a feed: which are watched, which are named, and a reload after each change."""

from __future__ import annotations

import asyncio
from pathlib import Path

from egress.policy.rule_source import RuleSource
from egress.policy.trust import TrustedFiles
from egress.proxy.control.rule_reload import ReloadOutcome
from egress.proxy.process.rule_feed import RuleFiles
from egress.proxy.process.rule_file_watch import fingerprint

RULES = "version: 1\nhosts: {a.example.com: {}}\n"


def feed(folder: Path, *, needs_trust: bool = False) -> RuleFiles:
    file = folder / "hosts.yaml"
    file.write_text(RULES)
    return RuleFiles(RuleSource((file,), needs_trust), TrustedFiles(folder / "state"))


def test_files_that_need_trust_are_read_again_once_they_are_trusted(tmp_path: Path) -> None:
    assert feed(tmp_path).watched == (tmp_path / "hosts.yaml",)
    found = feed(tmp_path, needs_trust=True)
    assert found.watched == (tmp_path / "hosts.yaml", found.trust.file)


def test_files_are_named_even_when_they_are_gone(tmp_path: Path) -> None:
    found = feed(tmp_path)
    assert found.read(0).policy is not None
    (tmp_path / "hosts.yaml").unlink()
    assert found.files() == [str(tmp_path / "hosts.yaml")] == [found.names]


async def test_a_change_since_they_were_read_is_a_reload(tmp_path: Path) -> None:
    found = feed(tmp_path)
    seen = RuleFiles(found.chosen, found.trust, fingerprint(found.watched))
    (tmp_path / "hosts.yaml").write_text(RULES * 2)
    asked = asyncio.Event()
    reasons = []

    async def reload(why: str) -> ReloadOutcome:
        reasons.append(why)
        asked.set()
        return ReloadOutcome("unchanged", "")

    task = asyncio.create_task(seen.follow(reload))
    await asyncio.wait_for(asked.wait(), 20)
    task.cancel()
    assert reasons == ["a file has changed"]
