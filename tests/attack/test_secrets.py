"""Secrets on their way from a source into the proxy: S-35 to S-40 and S-72, as far as they need no container.

The good twin of each: the same source, undisturbed, gives its value.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from egress.command_process import CommandProcess
from egress.errors import EgressError
from egress.rules.decide.policy import SecretSpec
from egress.secrets import Redactor, unresolvable_secrets
from egress.secrets.child_environment import ChildEnvironment
from egress.secrets.command import CommandSecretSource
from egress.secrets.file import FileSecretSource
from egress.secrets.needle_cache import NeedleCache
from egress.secrets.source_factory import SourceFactory, VariableSecretSource
from egress.secrets.source_value import CacheEntry, SourceValue
from egress.secrets.value_history import KnownValue, ValueHistory
from tests.unit.secrets.secret_samples import (
    OTHER,
    SYSTEM_PATH,
    TOKEN,
    HandClock,
    captured,
    file_spec,
    put,
    resolver,
    script,
    spec,
    until,
)

ROOT = Path(__file__).parents[2]
TEXT = TOKEN.decode()
ENVIRON = {"PATH": SYSTEM_PATH, "HOME": "/", "PYTHONPATH": str(ROOT), "TOKEN": TEXT}


async def value(specs: list[SecretSpec], *, limit: float = 60.0) -> dict[str, bytes]:
    of = resolver(HandClock(), captured({"TOKEN": TOKEN}), timeout=limit)
    return {name: secret.reveal() for name, secret in (await of.resolve(specs)).items()}


# S-35: what a file or a program puts around a value ----------------------------------------------


@pytest.mark.parametrize("around", [b"%s\n", b"%s\r\n", b"  %s\t\n\n", b"\n%s"])
async def test_line_ends_around_a_value_are_no_part_of_it(around: bytes, tmp_path: Path) -> None:
    """S-35."""
    path = put(tmp_path / "token", around % TOKEN)
    program = str(script(tmp_path, f"cat {path}"))
    found = await value([file_spec(path, "a"), spec("b", "command", program)])
    assert found == {"a": TOKEN, "b": TOKEN}


@pytest.mark.parametrize("inside", [b"\r", b"\n", b"\r\nX-Evil: 1", b"\0", b"\x1b[2J", b"\x7f", b"\t"])
async def test_a_control_byte_inside_is_refused_from_every_source(inside: bytes, tmp_path: Path) -> None:
    """S-35: it would end a header line."""
    path = put(tmp_path / "token", TOKEN + inside + OTHER)
    program = str(script(tmp_path, f"cat {path}"))
    assert await value([file_spec(path, "a"), spec("b", "command", program)]) == {}
    of = resolver(HandClock(), captured({"TOKEN": TOKEN + inside + OTHER}))
    assert await of.resolve([spec("c", "env", "TOKEN")]) == {}


# S-36: rotation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["rename", "in place", "symbolic link"])
async def test_a_rotated_file_is_seen_in_time_and_the_old_value_never_again(way: str, tmp_path: Path) -> None:
    """S-36: within three seconds when nobody asked meanwhile, at the next look when somebody did."""
    (tmp_path / "1").write_bytes(TOKEN)
    (tmp_path / "token").symlink_to("1")
    clock, one = HandClock(), file_spec(tmp_path / "token")
    of = resolver(clock)
    await of.resolve([one])
    if way == "in place":
        (tmp_path / "1").write_bytes(OTHER)
    elif way == "rename":
        put(tmp_path / "token", OTHER)
    else:
        (tmp_path / "2").write_bytes(OTHER)
        (tmp_path / "new").symlink_to("2")
        (tmp_path / "new").rename(tmp_path / "token")
    clock.advance(1)
    assert (await of.resolve([one]))["github"].reveal() == TOKEN
    await until(lambda: ((of.cached([one]) or {})["github"]).reveal() == OTHER)
    for _ in range(10):
        clock.advance(1)
        assert (await of.resolve([one]))["github"].reveal() == OTHER


async def test_an_idle_proxy_does_not_use_what_it_read_long_ago(tmp_path: Path) -> None:
    """S-36."""
    clock, one = HandClock(), file_spec(put(tmp_path / "token", TOKEN))
    of = resolver(clock)
    await of.resolve([one])
    put(tmp_path / "token", OTHER)
    clock.advance(3600)
    assert of.cached([one]) is None
    assert (await of.resolve([one]))["github"].reveal() == OTHER


# S-37: no value ----------------------------------------------------------------------------------


def deleted(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def made_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def made_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def opened_to_all(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("trouble", [deleted, emptied, made_a_pipe, made_a_folder, opened_to_all])
async def test_a_secret_that_cannot_be_had_is_missing_within_seconds(
    trouble: Callable[[Path], None], tmp_path: Path
) -> None:
    """S-37: the exchange denies what is missing. The neighbour in the same call is still had."""
    path = put(tmp_path / "token", TOKEN)
    clock, one, good = HandClock(), file_spec(path), spec("good", "env", "TOKEN")
    of = resolver(clock, captured({"TOKEN": TOKEN}))
    assert set(await of.resolve([one, good])) == {"github", "good"}
    trouble(path)
    clock.advance(3)
    assert of.cached([one, good]) is None
    assert set(await of.resolve([one, good])) == {"good"}


@pytest.mark.parametrize(
    "text", ["exit 1", "echo; exit 0", f"echo {TEXT}; exit 1", f"echo {TEXT}; kill -9 $$", "sleep 1000"]
)
async def test_a_program_that_fails_gives_nothing_whatever_it_printed(text: str, tmp_path: Path) -> None:
    """S-37."""
    assert await value([spec("x", "command", str(script(tmp_path, text)))], limit=0.5) == {}


# S-38 and S-72: nothing shows a value --------------------------------------------------------------


def everything(tmp_path: Path) -> list[object]:
    """One of each kind of object of the room, with the value in it."""
    given = captured({"TOKEN": TOKEN}, {"GH_TOKEN": TEXT, "PATH": SYSTEM_PATH})
    surroundings = ChildEnvironment(given.environ, given.values.values())
    file = FileSecretSource(str(put(tmp_path / "token", TOKEN)), {})
    known = KnownValue("x", file.fetch(), None)
    held, trail, searches = CacheEntry(file), ValueHistory(), NeedleCache()
    held.store(known.value, 0)
    trail.add("x", known.value, held, 0)
    command = CommandSecretSource(("echo", "x"), surroundings)
    ended = CommandProcess().run("/bin/echo", ["echo", TEXT], {}, "/", 60.0)
    return [
        given,
        surroundings,
        file,
        command,
        VariableSecretSource("TOKEN", given.values),
        SourceFactory(given, surroundings, False, 1.0),
        known,
        known.value,
        held,
        trail,
        searches,
        searches.of((known,)),
        ended,
        Redactor(lambda: searches.of((known,))),
        resolver(HandClock(), given),
        unresolvable_secrets([spec("x", "vault", "y")]),
    ]


def test_no_object_shows_a_value(tmp_path: Path) -> None:
    """S-38: as itself, inside a container, and as text in every way Python has."""
    for thing in everything(tmp_path):
        for shown in (repr(thing), str(thing), f"{thing!s:>1}", f"{[thing]}", ascii({"x": thing})):
            assert "tok_" not in shown, type(thing)


async def test_a_resolver_that_holds_values_does_not_show_them() -> None:
    """S-38."""
    of = resolver(HandClock(), captured({"TOKEN": TOKEN}))
    found = await of.resolve([spec("x", "env", "TOKEN")])
    assert found["x"].reveal() == TOKEN
    assert "tok_" not in f"{of!r}{of._entries!r}{of._histories!r}{of.all_needles()!r}{found!r}"


def raised(work: Callable[[], object]) -> EgressError:
    with pytest.raises(EgressError) as caught:
        work()
    return caught.value


def test_no_exception_shows_a_value_even_with_the_variables_of_its_frames(tmp_path: Path) -> None:
    """S-38: some renderers print the local variables of every frame."""
    surroundings = ChildEnvironment({"PATH": SYSTEM_PATH})
    failing = str(script(tmp_path, f"echo {TEXT}; echo {TEXT} >&2; exit 1", "failing"))
    flooding = str(script(tmp_path, f"while :; do echo {TEXT}; done", "flooding"))
    hanging = str(script(tmp_path, f"echo {TEXT}; sleep 1000", "hanging"))
    large = put(tmp_path / "large", TOKEN * 4096)
    errors = [
        raised(CommandSecretSource((failing,), surroundings).fetch),
        raised(CommandSecretSource((flooding,), surroundings).fetch),
        raised(CommandSecretSource((hanging,), surroundings, timeout=0.3).fetch),
        raised(FileSecretSource(str(large), {}).fetch),
        raised(lambda: SourceValue(TOKEN + b"\0" + TOKEN).secret_named("x")),
    ]
    for error in errors:
        assert "tok_" not in f"{error}{error.hint}{error.args}"
        frames = traceback.TracebackException.from_exception(error, capture_locals=True).stack
        ours = [frame for frame in frames if "egress/secrets" in frame.filename]
        assert ours
        assert "tok_" not in repr([(frame.name, frame.locals) for frame in ours])


async def test_the_log_shows_no_value_at_debug_level(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S-72: every event of the room, printed as it comes, without the redactor."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(0))
    try:
        clock = HandClock()
        path = put(tmp_path / "token", TOKEN)
        failing = spec("failing", "command", str(script(tmp_path, f"echo {TEXT}; echo {TEXT} >&2; exit 1")))
        one, broken = file_spec(path), file_spec(put(tmp_path / "broken", TOKEN + b"\0"), "broken")
        of = resolver(clock, captured({"TOKEN": TOKEN}))
        await of.warm([one, failing, broken, spec("env", "env", "TOKEN"), spec("later", "vault", TEXT)])
        of.revoke([one])
        await of.resolve([one])
        await of.close()
    finally:
        structlog.reset_defaults()
    said = capsys.readouterr()
    for name in ("github", "failing", "broken", "env", "later"):
        assert name in said.out
    assert "tok_" not in said.out + said.err


# S-39 and S-40: other processes ----------------------------------------------------------------------

PROGRAM = """
import asyncio, json, os, sys, time
from egress.rules.decide.policy import SecretSpec
from egress.secrets import SecretResolver, capture_environment
from egress.secrets.harden import harden
from egress.types import Place

class Clock:
    def monotonic(self):
        return time.monotonic()

captured = capture_environment(dict(os.environ), {"TOKEN"}, sys.orig_argv)
if sys.argv[2] == "hardened":
    harden()

async def main():
    of = SecretResolver(clock=Clock(), captured=captured)
    specs = [SecretSpec("github", Place("x", 1, 1), "env", ("TOKEN",)),
             SecretSpec("spy", Place("x", 1, 1), "command", (sys.argv[1],))]
    found = await of.resolve(specs)
    print(json.dumps({name: len(secret.reveal()) for name, secret in found.items()}))

asyncio.run(main())
"""

SPY = """
here=$(dirname "$0")
cat /proc/self/environ /proc/$PPID/environ /proc/$PPID/cmdline > "$here/seen"
ls -l /proc/self/fd > "$here/open"
env > "$here/env"
echo spy-value
"""


def test_a_value_of_the_environment_reaches_no_other_process(tmp_path: Path) -> None:
    """S-40: a command sees it neither in its own environment, nor in ours, nor in an open file."""
    spy = script(tmp_path, SPY, "gh")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(spy), "plain"],
        env={**ENVIRON, "GH_TOKEN": TEXT, "KEPT": "k"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {"github": len(TOKEN), "spy": 9}, done.stderr
    seen = (tmp_path / "seen").read_bytes()
    assert b"KEPT=k" in seen
    assert b"\0TOKEN=" not in b"\0" + seen
    assert TEXT not in (tmp_path / "env").read_text(encoding="utf-8")
    assert "memfd" not in (tmp_path / "open").read_text(encoding="utf-8")
    assert TEXT not in done.stdout + done.stderr


def test_commands_work_in_a_hardened_process(tmp_path: Path) -> None:
    """S-39: `tests/unit/secrets/test_harden.py` tries to read one; here it must still do its work."""
    spy = script(tmp_path, "echo spy-value")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(spy), "hardened"],
        env=ENVIRON,
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {"github": len(TOKEN), "spy": 9}, done.stderr
