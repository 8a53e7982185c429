"""A file of handlers: whose it may be, and what may stand in it."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from pathlib import Path

import pytest

from egress.errors import ContentError, UnreadableError
from egress.handlers.interface import HandlerTerms
from egress.handlers.module import module_of, read_module
from egress.rules.language.hosts import parse_host_pattern
from egress.types import HandlerUse
from tests.unit.handlers.samples import START, file_of, module

ONE = "@handler(body=5)\nasync def one(request, context): return Allow()\n"


def test_handlers_are_those_that_are_marked_or_named() -> None:
    made = module(
        ONE
        + """
def two(request, context): return Allow()
def three(request, context): return Allow()
def helper(): pass
outbound_by_host = {"api.example.com": one, "*.example.com": two}
outbound = three
outbound_handlers = {"kv-store": two}
"""
    )
    assert set(made.handlers) == {"one", "three", "kv-store"}
    assert made.handlers["one"].terms == HandlerTerms(5)
    assert made.handlers["one"].is_async
    assert not made.handlers["kv-store"].is_async
    assert made.static.by_host == {
        parse_host_pattern("api.example.com"): HandlerUse("one"),
        parse_host_pattern("*.example.com"): HandlerUse("kv-store"),
    }
    assert made.static.catch_all == HandlerUse("three")
    assert made.outbound.bodies == {"one": 5, "three": 0, "kv-store": 0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "has no handlers"),
        ("raise SystemExit\n", "handlers.py:2: the handlers cannot be loaded (SystemExit)"),
        ("1/0\n", "handlers.py:2: the handlers cannot be loaded (ZeroDivisionError)"),
        ("def (\n", "handlers.py:2: the handlers cannot be loaded (SyntaxError)"),
        ("outbound = 5\n", "outbound is not a function"),
        ("outbound = lambda r, c: Allow()\n", "is not the name of a handler"),
        ("outbound_by_host = []\n", "outbound_by_host is not a mapping"),
        ("outbound_by_host = {'https://x': print}\n", "outbound_by_host['https://x']"),
        (ONE + "def f(r, c): pass\noutbound_handlers = {'one': f}\n", "two handlers are called one"),
        (ONE + "outbound_handlers = {'a b': one}\n", "is not the name of a handler"),
    ],
)
def test_mistakes_name_the_file_and_the_cause(text: str, said: str) -> None:
    with pytest.raises(ContentError) as caught:
        module(text)
    assert "/etc/egress/handlers.py" in str(caught.value)
    assert said in str(caught.value)
    assert caught.value.hint


def test_a_secret_in_an_exception_of_the_file_is_not_shown() -> None:
    with pytest.raises(ContentError) as caught:
        module("raise ValueError('sesame')\n")
    assert "sesame" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_file_that_others_can_write_is_not_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, ONE)
    path.chmod(0o644)
    assert read_module(path) == (START + ONE).encode()
    path.chmod(0o664)
    with pytest.raises(UnreadableError, match="can be written by another user"):
        read_module(path)
    path.chmod(0o600)
    tmp_path.chmod(0o777)
    with pytest.raises(UnreadableError, match=r"the folder of .* can be written by another user"):
        read_module(path)
    tmp_path.chmod(0o700)
    assert read_module(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, ONE)
    os.chown(path, 12345, 12345)
    with pytest.raises(UnreadableError, match="can be written by another user"):
        read_module(path)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="cannot be read"):
        read_module(tmp_path / "none.py")
    with pytest.raises(UnreadableError, match="is not a file"):
        read_module(tmp_path)


def test_classes_of_the_file_find_their_module() -> None:
    made = module_of(
        Path("/x/handlers.py"),
        (START + "import dataclasses\n@dataclasses.dataclass\nclass A:\n    b: 'int' = 1\n" + ONE).encode(),
    )
    assert set(made.handlers) == {"one"}


def test_a_file_that_is_swapped_after_its_check_is_never_read(tmp_path: Path) -> None:
    good, bad, link = (tmp_path / name for name in ("good.py", "bad.py", "handlers.py"))
    good.write_text("good")
    bad.write_text("bad")
    bad.chmod(0o666)
    link.symlink_to(good)
    is_over = threading.Event()

    def swap() -> None:
        for target in itertools.cycle((bad, good)):
            (tmp_path / "next").symlink_to(target)
            (tmp_path / "next").rename(link)
            if is_over.is_set():
                return

    swapping = threading.Thread(target=swap)
    swapping.start()
    read = []
    try:
        for _ in range(2000):
            with contextlib.suppress(UnreadableError):
                read.append(read_module(link))
    finally:
        is_over.set()
        swapping.join()
    link.unlink()
    link.symlink_to(good)
    assert {*read, read_module(link)} == {b"good"}
