"""The resolver with real files, real programs and a clock that is set by hand."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from egress.rules.decide.policy import Binding, SecretSpec
from egress.rules.language.hosts import parse_host_pattern
from egress.secrets import SecretResolver
from egress.secrets.file import FileSecretSource
from egress.secrets.resolver import _fetch_value
from egress.secrets.value_history import REPLACED_VALUE_LIFETIME
from egress.types import Secret
from tests.unit.secrets.secret_samples import (
    OTHER,
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

type Events = list[structlog.typing.EventDict]

ENV = spec("github", "env", "TOKEN")
AT_A = replace(ENV, bindings=(Binding(parse_host_pattern("a.example"), 443),))


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def events() -> Iterator[Events]:
    with structlog.testing.capture_logs() as captured_events:
        yield captured_events


def revealed(secrets: dict[str, Secret] | None) -> dict[str, bytes]:
    return {name: secret.reveal() for name, secret in (secrets or {}).items()}


async def value(of: SecretResolver, *specs: SecretSpec) -> bytes | None:
    """The value of the first one."""
    found = await of.resolve(specs)
    return found[specs[0].name].reveal() if specs[0].name in found else None


def finds(of: SecretResolver, specs: Iterable[SecretSpec], data: bytes) -> bool:
    return bool(of.needles(specs).mask(data).hits)


# Values -----------------------------------------------------------------------------------------


async def test_resolves_from_every_kind_of_source(clock: HandClock, tmp_path: Path) -> None:
    specs = [
        ENV,
        file_spec(put(tmp_path / "token", b"file-value\n"), "store"),
        spec("vault", "command", str(script(tmp_path, "echo command-value"))),
    ]
    found = await resolver(clock, captured({"TOKEN": TOKEN})).resolve(specs)
    assert revealed(found) == {"github": TOKEN, "store": b"file-value", "vault": b"command-value"}
    assert all(secret.name == name for name, secret in found.items())


async def test_what_was_resolved_is_had_at_once_until_it_ends(clock: HandClock, tmp_path: Path) -> None:
    one = file_spec(put(tmp_path / "token", TOKEN))
    of = resolver(clock)
    assert of.cached([one]) is None
    await of.resolve([one])
    assert revealed(of.cached([one])) == {"github": TOKEN}
    clock.advance(3.0)
    assert of.cached([one]) is None
    assert of.cached([]) == {}


async def test_cached_is_all_or_nothing(clock: HandClock, tmp_path: Path) -> None:
    of = resolver(clock, captured({"TOKEN": TOKEN}))
    missing = file_spec(tmp_path / "gone", "store")
    assert revealed(await of.resolve([ENV, missing])) == {"github": TOKEN}
    assert of.cached([ENV]) is not None
    assert of.cached([ENV, missing]) is None


async def test_a_variable_is_good_for_ever(clock: HandClock) -> None:
    of = resolver(clock, captured({"TOKEN": TOKEN}))
    one = spec("github", "env", "TOKEN", ttl=1)
    await of.resolve([one])
    clock.advance(1e9)
    assert revealed(of.cached([one])) == {"github": TOKEN}


async def test_two_names_of_one_source_share_a_run_and_a_value(clock: HandClock, tmp_path: Path) -> None:
    program = str(script(tmp_path, f"echo x >> {tmp_path}/runs; echo {TOKEN.decode()}"))
    found = await resolver(clock).resolve([spec(name, "command", program) for name in ("a", "b")])
    assert revealed(found) == {"a": TOKEN, "b": TOKEN}
    assert (found["a"].name, found["b"].name) == ("a", "b")
    assert (tmp_path / "runs").read_text() == "x\n"


async def test_a_changed_reference_never_gets_the_value_of_the_old_one(
    clock: HandClock, tmp_path: Path
) -> None:
    old, new = file_spec(put(tmp_path / "old", TOKEN)), file_spec(tmp_path / "new")
    of = resolver(clock)
    await of.warm([old])
    await of.warm([new])
    assert of.cached([new]) is None
    assert await of.resolve([new]) == {}
    put(tmp_path / "new", OTHER)
    clock.advance(2)
    assert await value(of, new) == OTHER


async def test_each_secret_of_a_source_keeps_its_own_ttl(clock: HandClock, tmp_path: Path) -> None:
    path = put(tmp_path / "token", TOKEN)
    short, long = file_spec(path, "short", ttl=2), file_spec(path, "long", ttl=100)
    of = resolver(clock)
    await of.resolve([short, long])
    path.unlink()
    clock.advance(5)
    assert revealed(await of.resolve([short, long])) == {"long": TOKEN}


# Waiting ----------------------------------------------------------------------------------------


def waiting_script(folder: Path, value: bytes = TOKEN) -> str:
    """A program that says it has begun, and ends when it is let go."""
    for pipe in ("begun", "go"):
        os.mkfifo(folder / pipe)
    text = (
        f"echo x >> {folder}/runs; echo > {folder}/begun; cat {folder}/go > /dev/null; echo {value.decode()}"
    )
    return str(script(folder, text))


async def let_go(folder: Path) -> None:
    await asyncio.to_thread((folder / "go").write_bytes, b"")


async def begun(folder: Path) -> None:
    await asyncio.to_thread((folder / "begun").read_bytes)


async def test_many_waiters_share_one_run_and_a_cancelled_one_does_not_end_it(
    clock: HandClock, tmp_path: Path
) -> None:
    one = spec("vault", "command", waiting_script(tmp_path))
    of = resolver(clock)
    waiters = [asyncio.create_task(of.resolve([one])) for _ in range(20)]
    await begun(tmp_path)
    waiters[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiters[0]
    await let_go(tmp_path)
    assert all(revealed(found) == {"vault": TOKEN} for found in await asyncio.gather(*waiters[1:]))
    assert (tmp_path / "runs").read_text() == "x\n"


async def test_nobody_waits_longer_than_the_deadline_and_the_run_goes_on(
    clock: HandClock, tmp_path: Path, events: Events
) -> None:
    slow = spec("vault", "command", waiting_script(tmp_path))
    of = resolver(clock, captured({"TOKEN": TOKEN}), deadline=0.05)
    first = asyncio.create_task(of.resolve([slow, ENV]))
    await begun(tmp_path)
    assert revealed(await first) == {"github": TOKEN}
    assert await of.resolve([slow]) == {}
    told = [event for event in events if event["event"] == "secret.unavailable"]
    assert [event["cause"] for event in told] == ["the source has not answered within 0.05 s"]
    await let_go(tmp_path)
    await until(lambda: of.cached([slow]) is not None)


async def test_one_slow_source_does_not_hold_up_others(clock: HandClock, tmp_path: Path) -> None:
    slow = spec("vault", "command", waiting_script(tmp_path))
    quick = file_spec(put(tmp_path / "token", TOKEN))
    of = resolver(clock)
    waiter = asyncio.create_task(of.resolve([slow]))
    await begun(tmp_path)
    assert await value(of, quick) == TOKEN
    await let_go(tmp_path)
    await waiter


async def test_closing_kills_what_runs(clock: HandClock, tmp_path: Path) -> None:
    one = spec("vault", "command", str(script(tmp_path, f"echo $$ > {tmp_path}/begun; exec sleep 1000")))
    os.mkfifo(tmp_path / "begun")
    of = resolver(clock)
    waiter = asyncio.create_task(of.resolve([one]))
    pid = int(await asyncio.to_thread((tmp_path / "begun").read_bytes))
    await of.close()
    assert await waiter == {}
    await until(lambda: not Path(f"/proc/{pid}").exists())
    assert await of.resolve([one]) == {}


# Rotation ---------------------------------------------------------------------------------------


async def test_a_rotation_under_load_has_no_gap_and_never_goes_back(clock: HandClock, tmp_path: Path) -> None:
    """S-36: many requests at once, a file replaced again and again, and the clock running on."""
    path = put(tmp_path / "token", b"token-0000")
    one = file_spec(path)
    of = resolver(clock)
    await of.warm([one])
    seen: list[bytes | None] = []
    stop = asyncio.Event()

    async def requests() -> None:
        while not stop.is_set():
            found = of.cached([one])
            if found is None:
                found = await of.resolve([one])
            seen.append(found["github"].reveal() if found else None)
            await asyncio.sleep(0)

    workers = [asyncio.create_task(requests()) for _ in range(8)]
    for number in range(1, 21):
        new = b"token-%04d" % number
        put(path, new)
        clock.advance(1.0)
        await until(lambda new=new: seen[-1:] == [new])  # type: ignore[misc]
    stop.set()
    await asyncio.gather(*workers)
    assert None not in seen
    values = [one for one in seen if one is not None]
    assert values == sorted(values)
    assert len(set(values)) == 21


async def test_a_due_value_is_used_on_while_its_source_is_asked(clock: HandClock, tmp_path: Path) -> None:
    put(tmp_path / "value", TOKEN)
    one = spec("vault", "command", str(script(tmp_path, f"cat {tmp_path}/value")), ttl=100)
    of = resolver(clock)
    await of.resolve([one])
    put(tmp_path / "value", OTHER)
    clock.advance(79)
    of.cached([one])
    assert not of._runs
    clock.advance(1)
    assert revealed(of.cached([one])) == {"vault": TOKEN}
    assert len(of._runs) == 1
    await until(lambda: revealed(of.cached([one])) == {"vault": OTHER})
    clock.advance(79)
    assert revealed(of.cached([one])) == {"vault": OTHER}


async def test_a_value_is_not_used_after_its_end_whatever_its_source_does(
    clock: HandClock, tmp_path: Path, events: Events
) -> None:
    """A refresh that fails neither shortens nor prolongs."""
    path = put(tmp_path / "value", TOKEN)
    one = spec("vault", "command", str(script(tmp_path, f"cat {path}")), ttl=100)
    of = resolver(clock)
    await of.resolve([one])
    path.unlink()
    clock.advance(90)
    assert of.cached([one]) is not None
    await until(lambda: not of._runs)
    clock.advance(9)
    assert of.cached([one]) is not None
    await until(lambda: not of._runs)
    clock.advance(1)
    assert of.cached([one]) is None
    assert await of.resolve([one]) == {}
    assert [event["event"] for event in events] == ["secret.resolved", "secret.unavailable"]


async def test_a_file_written_in_place_leaves_no_gap(clock: HandClock, tmp_path: Path) -> None:
    """For a moment it is empty: the value before is used for up to three seconds."""
    path = put(tmp_path / "token", TOKEN)
    one = file_spec(path)
    of = resolver(clock)
    await of.resolve([one])
    path.write_bytes(b"")
    clock.advance(2)
    assert await value(of, one) == TOKEN
    await until(lambda: not of._runs)
    path.write_bytes(OTHER)
    clock.advance(0.9)
    assert revealed(of.cached([one])) == {"github": TOKEN}
    clock.advance(2)
    assert await value(of, one) == OTHER


async def test_a_kubernetes_volume_rotates(clock: HandClock, tmp_path: Path) -> None:
    for version, data in (("..1", TOKEN), ("..2", OTHER)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "token").write_bytes(data)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "token").symlink_to("..data/token")
    one = file_spec(tmp_path / "token")
    of = resolver(clock)
    assert await value(of, one) == TOKEN
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    clock.advance(3)
    assert await value(of, one) == OTHER


# Failure ----------------------------------------------------------------------------------------


async def test_a_missing_secret_is_missing_and_told_once_with_its_cure(
    clock: HandClock, tmp_path: Path, events: Events
) -> None:
    """S-37."""
    one = file_spec(tmp_path / "token")
    of = resolver(clock)
    for _ in range(3):
        assert await of.resolve([one]) == {}
        clock.advance(2)
    (told,) = events
    assert told["event"] == "secret.unavailable"
    assert told["secrets"] == ["github"]
    assert told["cause"] == f"file not found: {tmp_path}/token"
    assert told["cure"]


async def test_a_source_that_failed_is_left_alone_for_a_moment(clock: HandClock, tmp_path: Path) -> None:
    one = spec("vault", "command", str(script(tmp_path, f"echo x >> {tmp_path}/runs; exit 1")))
    of = resolver(clock)
    for _ in range(5):
        await of.resolve([one])
    assert (tmp_path / "runs").read_text() == "x\n"
    clock.advance(2)
    await of.resolve([one])
    assert (tmp_path / "runs").read_text() == "x\nx\n"


async def test_a_secret_that_comes_back_is_told_and_had(
    clock: HandClock, tmp_path: Path, events: Events
) -> None:
    one = file_spec(tmp_path / "token")
    of = resolver(clock)
    await of.resolve([one])
    put(tmp_path / "token", TOKEN)
    clock.advance(2)
    assert await value(of, one) == TOKEN
    (tmp_path / "token").unlink()
    clock.advance(3)
    assert await value(of, one) is None
    names = [event["event"] for event in events]
    assert names == ["secret.unavailable", "secret.resolved", "secret.unavailable"]


@pytest.mark.parametrize("raw", [b"", b"tok_A1b2\0C3d4E5", b"tok_A1b2\rC3d4E5", b"\xff\xfet\0o\0k\0"])
async def test_a_value_that_must_not_be_sent_is_missing_and_not_shown(
    raw: bytes, clock: HandClock, tmp_path: Path, events: Events
) -> None:
    """S-35."""
    assert await resolver(clock).resolve([file_spec(put(tmp_path / "token", raw))]) == {}
    (told,) = events
    assert "secret 'github'" in told["cause"]
    assert "tok_" not in repr(told)


async def test_a_short_value_is_missing_unless_it_need_not_be_scrubbed(
    clock: HandClock, tmp_path: Path, events: Events
) -> None:
    one = file_spec(put(tmp_path / "pin", b"1234567"), "pin")
    of = resolver(clock)
    for _ in range(3):
        assert await of.resolve([one]) == {}
        assert of.cached([one]) is None
    assert [event["cause"] for event in events if event["event"] == "secret.unavailable"] == [
        "the value has fewer than 8 bytes and cannot be scrubbed"
    ]
    assert revealed(await of.resolve([one], unscrubbed={"pin"})) == {"pin": b"1234567"}
    assert revealed(of.cached([one], unscrubbed={"pin"})) == {"pin": b"1234567"}
    assert len(of.needles([one])) == 0


@pytest.mark.parametrize("scheme", ["store", "keyring", "vault", "aws-sm", "gopher"])
async def test_a_source_of_later_is_missing_and_says_what_to_use(
    scheme: str, clock: HandClock, events: Events
) -> None:
    assert await resolver(clock).resolve([spec("x", scheme, "y")]) == {}
    (told,) = events
    assert "`command:`" in told["cure"]


async def test_a_variable_is_refused_in_a_container(clock: HandClock, events: Events) -> None:
    of = resolver(clock, captured({"TOKEN": TOKEN}), container=True)
    assert await of.resolve([ENV]) == {}
    assert "container" in events[0]["cause"]


async def test_a_mistake_of_our_own_is_a_missing_secret_too(
    clock: HandClock, tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its text, which nobody has checked, is not shown."""

    def fail(*_: object) -> None:
        raise RuntimeError(TOKEN.decode())

    monkeypatch.setattr("egress.secrets.resolver._fetch_value", fail)
    assert await resolver(clock).resolve([file_spec(put(tmp_path / "token", TOKEN))]) == {}
    assert events[0]["cause"] == "the source failed with RuntimeError"
    assert "tok_" not in repr(events)


# Searches ---------------------------------------------------------------------------------------


async def test_replaced_values_are_searched_for_a_while_longer(clock: HandClock, tmp_path: Path) -> None:
    one = file_spec(put(tmp_path / "token", TOKEN))
    of = resolver(clock)
    assert not finds(of, [one], TOKEN)
    await of.resolve([one])
    assert of.needles([one]) is of.needles([one])
    put(tmp_path / "token", OTHER)
    clock.advance(3)
    await of.resolve([one])
    assert finds(of, [one], TOKEN)
    assert finds(of, [one], OTHER)
    clock.advance(REPLACED_VALUE_LIFETIME)
    assert not finds(of, [one], TOKEN)
    assert finds(of, [one], OTHER)


async def test_only_the_secrets_of_the_destination_are_searched_for(clock: HandClock) -> None:
    other = spec("other", "env", "OTHER")
    of = resolver(clock, captured({"TOKEN": TOKEN, "OTHER": OTHER}))
    await of.resolve([ENV, other])
    assert finds(of, [ENV], TOKEN)
    assert not finds(of, [ENV], OTHER)
    assert of.all_needles().mask(TOKEN + OTHER).found == {"github": 1, "other": 1}
    assert of.all_needles() is of.all_needles()


async def test_a_value_is_searched_for_under_each_of_its_names(clock: HandClock) -> None:
    twin = spec("twin", "env", "TOKEN")
    of = resolver(clock, captured({"TOKEN": TOKEN}))
    await of.resolve([ENV])
    await of.resolve([twin])
    assert of.needles([ENV, twin]).mask(TOKEN).found == {"github": 1, "twin": 1}


async def test_after_a_reload_the_value_of_the_old_reference_is_searched_for(
    clock: HandClock, tmp_path: Path
) -> None:
    """Also when an exchange of the old policy asks once more: the new value must stay."""
    new = file_spec(put(tmp_path / "token", OTHER))
    of = resolver(clock, captured({"TOKEN": TOKEN}))
    await of.warm([ENV])
    await of.warm([new])
    assert finds(of, [new], TOKEN)
    assert finds(of, [new], OTHER)
    assert await value(of, ENV) == TOKEN
    clock.advance(REPLACED_VALUE_LIFETIME)
    assert finds(of, [new], OTHER)
    await of.warm([new])
    clock.advance(REPLACED_VALUE_LIFETIME)
    assert finds(of, [new], OTHER)
    assert not finds(of, [new], TOKEN)


async def test_a_secret_that_left_the_policy_is_searched_for_an_hour(clock: HandClock) -> None:
    of = resolver(clock, captured({"TOKEN": TOKEN}))
    await of.warm([ENV])
    await of.warm([])
    assert of.all_needles().mask(TOKEN).hits
    clock.advance(REPLACED_VALUE_LIFETIME)
    assert not of.all_needles().mask(TOKEN).hits


async def test_a_secret_that_left_the_policy_while_it_was_waited_for_is_not_put_back(
    clock: HandClock, tmp_path: Path
) -> None:
    slow = spec("vault", "command", waiting_script(tmp_path))
    of = resolver(clock)
    waiter = asyncio.create_task(of.resolve([slow]))
    await begun(tmp_path)
    await of.warm([])
    await let_go(tmp_path)
    assert await waiter == {}
    assert of.unavailable([slow]) == ()
    assert not of._entries


async def test_a_destination_without_secrets_is_told_from_one_whose_values_are_not_known(
    clock: HandClock,
) -> None:
    of = resolver(clock, captured({"TOKEN": TOKEN}))
    assert of.needles_at("a.example", 443, []) is None
    nothing = of.needles_at("a.example", 443, [AT_A])
    assert nothing is not None
    assert len(nothing) == 0
    await of.resolve([AT_A])
    found = of.needles_at("a.example", 443, [AT_A])
    assert found is not None
    assert found.mask(TOKEN).hits


async def test_the_version_grows_with_whatever_there_is_to_look_for(clock: HandClock, tmp_path: Path) -> None:
    one = replace(file_spec(put(tmp_path / "token", TOKEN)), bindings=AT_A.bindings)
    of = resolver(clock)
    versions = [of.version]

    async def warm() -> None:
        await of.warm([one])

    async def rotate() -> None:
        put(tmp_path / "token", OTHER)
        clock.advance(3)
        await of.resolve([one])

    async def bind() -> None:
        of.needles_at(
            "b.example", 443, [replace(one, bindings=(Binding(parse_host_pattern("b.example"), 443),))]
        )

    for step in (warm, rotate, bind):
        await step()
        versions.append(of.version)
    assert versions == sorted(set(versions))
    of.needles_at("a.example", 443, [one])
    clock.advance(3)
    await of.resolve([one])
    assert of.version == versions[-1], "nothing is new"


async def test_what_left_the_policy_is_searched_for_at_its_destinations(clock: HandClock) -> None:
    of = resolver(clock, captured({"TOKEN": TOKEN}))
    await of.warm([AT_A])
    await of.warm([])
    found = of.needles_at("a.example", 443, [])
    assert found is not None
    assert found.mask(TOKEN).hits
    assert of.needles_at("b.example", 443, []) is None
    clock.advance(REPLACED_VALUE_LIFETIME)
    assert of.needles_at("a.example", 443, []) is None
    await of.warm([])
    assert not of._histories, "nothing is kept of it for ever"


async def test_what_a_running_exchange_carries_is_searched_for_until_it_is_over(clock: HandClock) -> None:
    of = resolver(clock, captured({"TOKEN": TOKEN}))
    await of.warm([AT_A])
    carried = of.begin_use(("github", "unknown"))
    for _ in range(3):
        await of.warm([])
        clock.advance(REPLACED_VALUE_LIFETIME)
    found = of.needles_at("a.example", 443, [])
    assert found is not None
    assert found.mask(TOKEN).hits
    of.end_use(carried)
    assert of.needles_at("a.example", 443, []) is None


async def test_an_exchange_carries_the_value_that_is_in_use_when_it_is_sent(
    clock: HandClock, tmp_path: Path
) -> None:
    one = file_spec(put(tmp_path / "token", TOKEN))
    of = resolver(clock)
    await of.warm([one])
    first = of.begin_use(("github",))
    put(tmp_path / "token", OTHER)
    clock.advance(3)
    await of.resolve([one])
    second = of.begin_use(("github",))
    assert [known.value.secret_named("x").reveal() for known in (*first, *second)] == [TOKEN, OTHER]
    of.end_use(second)
    clock.advance(REPLACED_VALUE_LIFETIME)
    assert finds(of, [one], TOKEN)
    of.end_use(first)
    assert not finds(of, [one], TOKEN)
    assert finds(of, [one], OTHER)


# Revocation -------------------------------------------------------------------------------------


async def test_a_revoked_secret_is_missing_whatever_its_source_gives(
    clock: HandClock, tmp_path: Path
) -> None:
    one = file_spec(put(tmp_path / "token", TOKEN))
    of = resolver(clock)
    await of.resolve([one])
    of.revoke([one])
    for value_now in (TOKEN, OTHER, TOKEN):
        put(tmp_path / "token", value_now)
        clock.advance(5)
        assert of.cached([one]) is None
        assert await of.resolve([one]) == {}
        await of.warm([one])
        assert finds(of, [one], value_now), "it is searched for in answers all the same"
    of.restore("github")
    assert await value(of, one) == TOKEN


async def test_a_command_that_mints_is_not_run_while_its_secret_is_revoked(
    clock: HandClock, tmp_path: Path
) -> None:
    """Each run gives a fresh value: the revocation is of the name, and makes no further values."""
    runs = tmp_path / "runs"
    path = script(tmp_path, f"echo x >> {runs}; echo minted-value-number-$(wc -l < {runs})")
    one = spec("vault", "command", str(path))
    of = resolver(clock)
    assert await value(of, one) == b"minted-value-number-1"
    of.revoke([one])
    for _ in range(3):
        clock.advance(1000)
        assert of.cached([one]) is None
        assert await of.resolve([one]) == {}
        await of.warm([one])
    assert runs.read_text() == "x\n"
    of.restore("vault")
    assert await value(of, one) == b"minted-value-number-2"


async def test_a_fetch_that_began_before_does_not_bring_a_revoked_secret_back(
    clock: HandClock, tmp_path: Path
) -> None:
    one = spec("vault", "command", waiting_script(tmp_path))
    of = resolver(clock)
    waiter = asyncio.create_task(of.resolve([one]))
    await begun(tmp_path)
    of.revoke([one])
    await let_go(tmp_path)
    assert await waiter == {}


async def test_what_was_never_fetched_can_be_revoked_and_restored(clock: HandClock) -> None:
    of = resolver(clock, captured({"TOKEN": TOKEN}))
    of.revoke([ENV])
    assert await of.resolve([ENV]) == {}
    of.restore("github")
    assert await value(of, ENV) == TOKEN


async def test_another_name_of_the_same_source_is_revoked_as_well(clock: HandClock) -> None:
    """The value has leaked, whatever it is called; and each name is restored for itself."""
    of, alias = resolver(clock, captured({"TOKEN": TOKEN})), replace(ENV, name="alias")
    of.revoke([ENV])
    assert await of.resolve([alias]) == {}
    of.revoke([alias])
    of.restore("github")
    assert await of.resolve([ENV]) == {}
    of.restore("alias")
    assert await value(of, ENV) == TOKEN


async def test_a_revocation_outlives_a_policy_without_the_secret(clock: HandClock) -> None:
    of = resolver(clock, captured({"TOKEN": TOKEN}))
    await of.warm([ENV])
    of.revoke([ENV])
    await of.warm([])
    await of.warm([ENV])
    assert of.cached([ENV]) is None
    assert [(each.name, each.cause) for each in of.unavailable([ENV])] == [("github", "it was revoked")]


async def test_a_revocation_is_logged_once(clock: HandClock, events: Events) -> None:
    of = resolver(clock, captured({"TOKEN": TOKEN}))
    for _ in range(3):
        of.revoke([ENV])
    assert [event["event"] for event in events] == ["secret.revoked"]


# Commands ---------------------------------------------------------------------------------------


async def test_a_variable_named_as_a_secret_reaches_no_command(clock: HandClock, tmp_path: Path) -> None:
    """Also one that a reload names, and which is therefore still in the environment of the process."""
    program = str(script(tmp_path, 'echo "seen-$GH_TOKEN-$LANG-end"', "gh"))
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/", "GH_TOKEN": "key", "LANG": "C"}
    one = spec("vault", "command", program)
    of = resolver(clock, captured({}, environ))
    assert await value(of, one) == b"seen-key-C-end"
    again = resolver(clock, captured({}, environ))
    await again.warm([one, spec("late", "env", "GH_TOKEN")])
    assert await value(again, one) == b"seen--C-end"


async def test_all_variables_are_known_before_the_first_command_runs(
    clock: HandClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on a loop that begins with a task before it goes on."""

    async def at_once[T](work: Callable[[], T]) -> T:
        return work()

    monkeypatch.setattr("egress.secrets.resolver.run_in_thread", at_once)
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    one = spec("vault", "command", str(script(tmp_path, 'echo "seen-$GH_TOKEN-end"', "gh")))
    of = resolver(clock, captured({}, {"PATH": "/usr/bin:/bin", "HOME": "/", "GH_TOKEN": "key"}))
    assert await value(of, one, spec("late", "env", "GH_TOKEN")) == b"seen--end"


async def test_the_costly_parts_are_made_before_the_loop_sees_the_value(tmp_path: Path) -> None:
    source = FileSecretSource(str(put(tmp_path / "token", TOKEN)), {})
    first = _fetch_value(source, None, "x")
    assert first._spellings is not None
    assert _fetch_value(source, first, "x") is first


async def test_a_look_that_has_just_ended_is_not_waited_for(clock: HandClock, tmp_path: Path) -> None:
    """Its task is done before it is taken out of the list: a value that ends right then needs a new look."""
    one = file_spec(put(tmp_path / "token", TOKEN))
    of = resolver(clock)
    await of.resolve([one])
    clock.advance(1)
    of.cached([one])
    (run,) = of._runs.values()
    await run
    of._runs[next(iter(of._entries.values()))] = run
    clock.advance(3)
    assert await value(of, one) == TOKEN


# Telling -----------------------------------------------------------------------------------------


async def test_what_cannot_be_had_is_told_with_its_cause_and_its_cure(
    clock: HandClock, tmp_path: Path
) -> None:
    there, gone = spec("there", "env", "TOKEN"), spec("gone", "env", "OTHER")
    lost, short = file_spec(tmp_path / "none", "lost"), spec("short", "env", "SHORT")
    of = resolver(clock, captured({"TOKEN": TOKEN, "SHORT": b"1234567"}))
    specs = [there, gone, lost, short]
    assert of.unavailable(specs) == (), "nobody was asked yet"
    await of.warm(specs)
    told = of.unavailable(specs)
    assert [(lack.name, lack.scheme) for lack in told] == [
        ("gone", "env"),
        ("lost", "file"),
        ("short", "env"),
    ]
    assert "OTHER" in told[0].cause
    assert "fewer than 8 bytes" in told[2].cause
    assert all(lack.cure for lack in told)
    assert "1234567" not in repr(told)
    assert [lack.name for lack in of.unavailable(specs, {"short"})] == ["gone", "lost"]
    put(tmp_path / "none", OTHER)
    clock.advance(3)
    await of.resolve([lost])
    assert [lack.name for lack in of.unavailable(specs)] == ["gone", "short"]


async def test_the_variables_that_it_was_started_with_are_told_by_name(clock: HandClock) -> None:
    of = resolver(clock, captured({"TOKEN": TOKEN, "UNNAMED": OTHER, "EMPTY": b" ", "SHORT": b"a"}))
    names = {"b": "TOKEN", "a": "OTHER", "d": "EMPTY", "e": "SHORT"}
    specs = [*(spec(name, "env", variable) for name, variable in names.items()), spec("c", "file", "/x")]
    assert of.variables(specs) == {"EMPTY": False, "OTHER": False, "SHORT": True, "TOKEN": True}


async def test_tells_how_old_values_are_and_of_none_that_are_not_held(
    tmp_path: Path, clock: HandClock
) -> None:
    of = resolver(clock)
    here, missing = file_spec(put(tmp_path / "here", TOKEN), "here"), file_spec(tmp_path / "gone", "gone")
    await of.resolve([here, missing])
    clock.advance(7)
    assert of.ages([here, missing]) == {"here": 7}
