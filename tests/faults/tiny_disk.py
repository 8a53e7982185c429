"""A proxy whose audit log is on a disk of a few MiB that fills up, and has room again.

    python -m tests.faults.tiny_disk FOLDER stop|drop

It has to be run in a mount namespace of its own, as its root. Prints what came of it, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.faults.proxy_lab import API, ProxyLab
from tests.proxy.lab.client import Peer, RefusedError

SIZE = "6m"
"""What is under way takes four of them."""
FREE_BYTES = 48 * 1024
"""Bytes that are left for the log when the disk is nearly full."""
MAX_REQUESTS = 2000
REQUESTS_AFTER = 50


async def play(folder: Path, mode: str) -> dict[str, object]:
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", disk], check=True)  # noqa: ASYNC221
    async with ProxyLab.of(folder, "--audit-dir", str(disk), "--audit-on-full", mode) as estate:
        story = Story(estate)
        assert await story.ask() == "200"
        ballast = fill(disk)
        while not await story.is_noticed():
            assert len(story.answers) < MAX_REQUESTS, "it never became full"
        noticed = len(story.answers)
        seen = len(estate.seen)
        while_full = Counter([await story.ask() for _ in range(REQUESTS_AFTER)])
        seen_while_full = len(estate.seen) - seen
        ready, _ = await estate.ask("GET", "/readyz")
        ballast.unlink()
        while await story.is_noticed():  # noqa: ASYNC110 - the proxy tells nobody
            await asyncio.sleep(0.05)
        assert await story.ask() == "200"
        checked = await stopped(estate, disk)
        return {
            "until": Counter(story.answers[:noticed]),
            "while_full": while_full,
            "seen_while_full": seen_while_full,
            "ready": ready,
            "answered": Counter(story.answers)["200"],
            "seen": sum(estate.seen.values()),
            "log": facts(disk, set(estate.seen)),
            "dropped": story.dropped,
            "verify": checked,
        }


class Story:
    """A client that asks again and again."""

    def __init__(self, estate: ProxyLab) -> None:
        self.estate = estate
        self.answers: list[str] = []
        self._peer: Peer | None = None
        self.dropped = 0

    async def ask(self) -> str:
        answer = await self._ask()
        self.answers.append(answer)
        return answer

    async def _ask(self) -> str:
        """The status, or the code of a refusal."""
        try:
            peer = self._peer = self._peer or await self.estate.visit()
        except RefusedError as error:
            return error.response.header("egress-denied") or ""
        response = await peer.get(f"/small/{len(self.answers)}", self.estate.host(API))
        if response.header("connection") == "close":
            await peer.channel.close()
            self._peer = None
        return response.header("egress-denied") or str(response.status)

    async def is_noticed(self) -> bool:
        """Whether the proxy stands still, or has dropped something since; one more request tells."""
        await self.ask()
        _, status = await self.estate.ask("GET", "/status")
        before, numbers = self.dropped, status["requests"]
        assert isinstance(numbers, dict)
        self.dropped = int(numbers["unrecorded"])
        return not status["ready"] or self.dropped != before


def fill(disk: Path) -> Path:
    """Take all but a little of the room."""
    ballast = disk / "ballast"
    room = os.statvfs(disk)
    ballast.write_bytes(bytes(max(0, room.f_bavail * room.f_frsize - FREE_BYTES)))
    return ballast


async def stopped(estate: ProxyLab, disk: Path) -> int:
    """End the proxy as one does, and check the log."""
    await estate.ask("POST", "/stop")
    await asyncio.to_thread(estate.served.ended)
    key = estate.served.state / "audit.key"
    arguments = ("log", "verify", "--dir", str(disk), "--key", str(key))
    return (await asyncio.to_thread(estate.served.egress, *arguments)).status


def facts(disk: Path, seen: set[str]) -> dict[str, object]:
    """What the log says."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(disk.glob("*.jsonl")))
    lines = [json.loads(line) for line in text.splitlines()]
    told = Counter(
        line["path"] for line in lines if line["event"] == "exchange" and line["verdict"] == "allow"
    )
    return {
        "untold": len(seen - told.keys()),
        "unseen": len(told.keys() - seen),
        "twice": sum(count > 1 for count in told.values()),
        "dropped": sum(line["count"] for line in lines if line["event"] == "dropped"),
        "resumed": [line["reason"] for line in lines if line["event"] == "resumed"],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(play(Path(sys.argv[1]), sys.argv[2]))))
