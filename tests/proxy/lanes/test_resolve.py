"""Names are asked for absolutely, in bounded numbers, and a silent name server harms only who asked it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from egress.errors import UsageError
from egress.proxy.lanes.resolve import (
    FixedResolver,
    SystemResolver,
    UnresolvedError,
    from_hosts_file,
    look_up_name,
)

ADDRESS = "192.0.2.7"


class Names:
    """A system whose answers the test holds back until it lets them go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.running = 0
        self.most = 0
        self.go = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, name: str) -> tuple[str, ...]:
        with self._lock:
            self.asked.append(name)
            self.running += 1
            self.most = max(self.most, self.running)
        self.go.wait(30)
        with self._lock:
            self.running -= 1
        return (ADDRESS,)


def now() -> float:
    return 0.0


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until something has come about; the test's own time limit ends it."""
    while not condition():  # noqa: ASYNC110 - what is waited for happens in threads
        await asyncio.sleep(0.001)


# Asking -----------------------------------------------------------------------------------------


async def test_answers_what_the_system_says() -> None:
    resolver = SystemResolver(now, look_up=lambda _name: ("2001:db8::1", ADDRESS))
    assert await resolver.resolve("a.example") == ("2001:db8::1", ADDRESS)


async def test_an_error_of_the_system_is_no_address() -> None:
    def fail(name: str) -> tuple[str, ...]:
        raise socket.gaierror(socket.EAI_NONAME, "no")

    resolver = SystemResolver(now, look_up=fail)
    with pytest.raises(UnresolvedError):
        await resolver.resolve("a.example")


async def test_an_empty_answer_is_no_address() -> None:
    with pytest.raises(UnresolvedError):
        await SystemResolver(now, look_up=lambda _name: ()).resolve("a.example")


async def test_questions_for_one_name_are_shared() -> None:
    names = Names()
    resolver = SystemResolver(now, look_up=names)
    waiting = [asyncio.create_task(resolver.resolve("a.example")) for _ in range(5)]
    await until(lambda: names.asked)
    names.go.set()
    assert await asyncio.gather(*waiting) == [(ADDRESS,)] * 5
    assert names.asked == ["a.example"]


async def test_who_gives_up_does_not_take_the_answer_from_the_others() -> None:
    names = Names()
    resolver = SystemResolver(now, look_up=names)
    first, second = (asyncio.create_task(resolver.resolve("a.example")) for _ in range(2))
    await until(lambda: names.asked)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    names.go.set()
    assert await second == (ADDRESS,)


async def test_a_good_answer_is_kept_for_a_moment() -> None:
    time = 0.0
    names = Names()
    names.go.set()
    resolver = SystemResolver(lambda: time, kept=3.0, look_up=names)
    await resolver.resolve("a.example")
    time = 2.9
    await resolver.resolve("a.example")
    assert len(names.asked) == 1
    time = 3.0
    await resolver.resolve("a.example")
    assert len(names.asked) == 2


async def test_a_bad_answer_is_not_kept() -> None:
    answers = iter([(), (ADDRESS,)])
    resolver = SystemResolver(now, look_up=lambda _name: next(answers))
    with pytest.raises(UnresolvedError):
        await resolver.resolve("a.example")
    assert await resolver.resolve("a.example") == (ADDRESS,)


async def test_the_names_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egress.proxy.lanes.resolve.MAX_CACHED_NAMES", 10)
    resolver = SystemResolver(now, look_up=lambda _name: (ADDRESS,))
    for number in range(25):
        await resolver.resolve(f"n{number}.example")
    assert len(resolver._answers) <= 10


# Bounds -----------------------------------------------------------------------------------------


async def test_no_more_threads_than_there_are_places() -> None:
    names = Names()
    resolver = SystemResolver(now, threads=3, share=9, look_up=names)
    waiting = [asyncio.create_task(resolver.resolve(f"n{number}.example")) for number in range(9)]
    await until(lambda: names.running == 3)
    names.go.set()
    await asyncio.gather(*waiting)
    assert names.most == 3


async def test_a_sandbox_whose_names_are_silent_does_not_stop_another_one() -> None:
    names = Names()
    resolver = SystemResolver(now, threads=4, share=2, look_up=names)
    stuck = [asyncio.create_task(resolver.resolve(f"n{number}.evil", "bad")) for number in range(20)]
    await until(lambda: names.running == 2)
    other = asyncio.create_task(resolver.resolve("api.example", "good"))
    await until(lambda: "api.example" in names.asked)
    assert names.running == 3
    names.go.set()
    assert await other == (ADDRESS,)
    await asyncio.gather(*stuck)


async def test_a_place_is_free_only_when_its_thread_has_come_back() -> None:
    """Giving up must not let threads pile up behind it."""
    names = Names()
    resolver = SystemResolver(now, threads=2, share=2, look_up=names)
    for number in range(6):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await resolver.resolve(f"n{number}.example")
    assert names.most <= 2
    names.go.set()
    await until(lambda: not resolver._owners)


async def test_too_many_questions_of_one_sandbox_are_refused_at_once() -> None:
    names = Names()
    resolver = SystemResolver(now, share=1, waiting=2, look_up=names)
    waiting = [asyncio.create_task(resolver.resolve(f"n{number}.evil", "bad")) for number in range(3)]
    await until(lambda: names.running)
    with pytest.raises(UnresolvedError, match="too many"):
        await resolver.resolve("n4.evil", "bad")
    names.go.set()
    await asyncio.gather(*waiting)
    assert await resolver.resolve("n4.evil", "bad") == (ADDRESS,)


async def test_without_a_thread_the_name_has_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    resolver = SystemResolver(now, threads=1, look_up=lambda _name: (ADDRESS,))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        for _ in range(3):
            with pytest.raises(UnresolvedError, match="thread"):
                await resolver.resolve("a.example")
    assert await resolver.resolve("a.example") == (ADDRESS,)


def test_a_thread_that_comes_back_after_the_loop_has_ended_does_no_harm() -> None:
    names = Names()

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await SystemResolver(now, look_up=names).resolve("a.example")

    asyncio.run(leave())
    names.go.set()
    for thread in threading.enumerate():
        if thread.name == "resolve":
            thread.join(30)


# The system -------------------------------------------------------------------------------------


def test_a_name_is_asked_for_absolutely(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a search list behind it, `api.example` could become `api.example.corp.example`."""
    asked: list[object] = []

    def note(host: str, *_: object, **__: object) -> list[object]:
        asked.append(host)
        return [
            (socket.AF_INET6, 1, 6, "", ("2001:db8::1", 0, 0, 0)),
            (socket.AF_INET6, 1, 6, "", ("fe80::1", 0, 0, 2)),
            (socket.AF_INET6, 1, 6, "", ("fe80::2%eth0", 0, 0, 2)),
            (socket.AF_INET, 1, 6, "", (ADDRESS, 0)),
            (socket.AF_INET, 1, 6, "", (ADDRESS, 0)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", note)
    found = look_up_name("api.example", tmp_path / "none")
    assert asked == ["api.example."]
    assert found == ("2001:db8::1", "fe80::1%2", "fe80::2%eth0", ADDRESS)


def test_the_hosts_file_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("asked a name server")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    file = tmp_path / "hosts"
    file.write_text(
        "# 10.0.0.1 commented.example\n"
        "127.0.0.1 localhost\n"
        "10.1.2.3\tGit.Example  git # our own\n"
        "2001:DB8:0::7 git.example\n"
        "broken git.example\n\n",
        encoding="utf-8",
    )
    assert look_up_name("git.example", file) == ("10.1.2.3", "2001:db8::7", "broken")
    assert from_hosts_file("localhost", file) == ("127.0.0.1",)
    assert from_hosts_file("commented.example", file) == ()
    assert from_hosts_file("10.1.2.3", file) == ()


def test_a_machine_without_a_hosts_file_is_fine(tmp_path: Path) -> None:
    assert from_hosts_file("git.example", tmp_path / "none") == ()


# Fixed names ------------------------------------------------------------------------------------


async def test_a_fixed_name_is_not_asked_for() -> None:
    names = Names()
    names.go.set()
    resolver = FixedResolver({"Git.Example.": ["10.1.2.3", "10.1.2.4"]}, SystemResolver(now, look_up=names))
    assert await resolver.resolve("git.example") == ("10.1.2.3", "10.1.2.4")
    assert names.asked == []
    assert await resolver.resolve("other.example") == (ADDRESS,)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("git example", "10.1.2.3"),
        ("10.0.0.1", "10.1.2.3"),
        ("git.example", "10.1.2"),
        ("git.example", "::01"),
    ],
)
def test_a_fixed_name_needs_a_name_and_an_address(name: str, address: str) -> None:
    with pytest.raises(UsageError):
        FixedResolver({name: [address]}, SystemResolver(now))
