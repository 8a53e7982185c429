"""Each source is asked once and answers or says why not; a value is in nothing that is told."""

from __future__ import annotations

import grp
import os
from dataclasses import replace
from pathlib import Path

import pytest

from egress.doctor import secrets
from egress.doctor.diagnosis import Diagnosis, Level
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.doctor.running_proxy import RunningProxy
from egress.doctor.secrets import ask, needles
from egress.errors import UnreadableError
from tests.cli.command import put
from tests.unit.doctor.proxy_setups import RULES, by_name, is_content, needs_care, only, open_folder, patient

TOKEN = "tok_A1b2C3d4E5f6G7h8I9j0"
NOBODY = RunningProxy()
OTHER = "tok_Z9y8X7w6V5u4T3s2R1q0"


def rules(*secrets: str, extra: str = "") -> str:
    """Rules with a secret for each source, injected into one host."""
    named = "".join(
        f'  s{n}: {{from: "{source}", hosts: [a.example.com]{extra}}}\n' for n, source in enumerate(secrets)
    )
    return f"version: 1\nsecrets:\n{named}hosts:\n  a.example.com: {{allow: all, inject: [{{bearer: s0}}]}}\n"


def private(path: Path, text: str) -> Path:
    put(path, text).chmod(0o600)
    path.parent.chmod(0o700)
    return path


async def looked(found: ProxyUnderCheck, running: RunningProxy = NOBODY) -> dict[str, Diagnosis]:
    told = tuple(secrets.check(found, await ask(found), running))
    assert TOKEN not in repr(told)
    return by_name(told)


async def test_every_kind_of_source_that_answers_is_fine(tmp_path: Path) -> None:
    file = private(tmp_path / "kept/token", TOKEN)
    text = rules(f"file:{file}", "env:TRACKER", f"command:/bin/cat {file}", "file:~/kept/token")
    found = await looked(patient(tmp_path, text, values={"TRACKER": TOKEN.encode()}))
    assert is_content(found.values())
    assert {item.fact for item in found.values()} == {
        f"`{source}` answers; for a.example.com" for source in ("file:", "env:TRACKER", "command:")
    }


async def test_rules_without_secrets_and_no_rules_are_fine(tmp_path: Path) -> None:
    for text in (RULES, None):
        assert is_content((await looked(patient(tmp_path, text))).values())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("file:FOLDER/none", "file not found"),
        ("file:FOLDER", "is not a regular file"),
        ("env:NOWHERE", "`env:NOWHERE` is not set in this shell"),
        ("command:/nowhere/at/all", "program not found: /nowhere/at/all"),
        ("command:/bin/sh -c 'echo tok_A1b2C3d4E5f6G7h8I9j0 >&2; exit 3'", "sh ended with status 3"),
        ("command:/bin/true", "is empty"),
    ],
)
async def test_a_source_that_fails_is_a_fault_with_its_reason(source: str, said: str, tmp_path: Path) -> None:
    found = only((await looked(patient(tmp_path, rules(source.replace("FOLDER", str(tmp_path)))))).values())
    needs_care(found, Level.FAULT, said)
    assert TOKEN not in str(found)


async def test_a_value_that_cannot_be_sent_is_a_fault_and_not_shown(tmp_path: Path) -> None:
    file = private(tmp_path / "kept/token", f"{TOKEN}\n{TOKEN}")
    found = only((await looked(patient(tmp_path, rules(f"file:{file}")))).values())
    needs_care(found, Level.FAULT)
    assert TOKEN not in str(found)


async def test_a_short_secret_is_a_fault_where_it_would_have_to_be_scrubbed(tmp_path: Path) -> None:
    file = private(tmp_path / "kept/token", "1234567")
    text = rules(f"file:{file}")
    needs_care(only((await looked(patient(tmp_path, text))).values()), Level.FAULT, "shorter than 8 bytes")
    unscrubbed = text.replace("allow: all,", "allow: all, scrub: off,")
    assert is_content((await looked(patient(tmp_path, unscrubbed))).values())


async def test_a_variable_is_no_source_in_a_container(tmp_path: Path) -> None:
    found = patient(tmp_path, rules("env:TRACKER"), values={"TRACKER": TOKEN.encode()}, container=True)
    needs_care(only((await looked(found)).values()), Level.FAULT, "`env:TRACKER` is refused in a container")


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (0o644, "is readable by every user"),
        (0o604, "is readable by every user"),
        (0o660, "writable by every user of the group"),
    ],
)
async def test_a_file_that_is_open_is_doubtful(mode: int, said: str, tmp_path: Path) -> None:
    with open_folder() as folder:
        file = put(folder / "token", TOKEN)
        text = rules(f"file:{file}")
        file.chmod(0o600)
        found = patient(tmp_path, text)
        assert is_content((await looked(found)).values())
        file.chmod(mode)
        told = tuple(secrets.check(found, await ask(found), NOBODY))
        assert [item.level for item in told] == [Level.OK, Level.WARNING]
        needs_care(told[1], Level.WARNING, said, f"{mode:04o}")
        assert told[1].fix == f"`chmod 600 {file}`"
        boxed = patient(tmp_path, text, container=True)
        assert is_content(secrets.check(boxed, await ask(boxed), NOBODY))


async def test_that_its_group_may_read_a_file_is_worth_knowing_where_it_can_get_to_it(tmp_path: Path) -> None:
    with open_folder() as folder:
        file = put(folder / "token", TOKEN)
        file.chmod(0o640)
        found = patient(tmp_path, rules(f"file:{file}"))
        told = tuple(secrets.check(found, await ask(found), NOBODY))
        assert [item.level for item in told] == [Level.OK, Level.NOTE]
        group = grp.getgrgid(file.stat().st_gid).gr_name
        needs_care(told[1], Level.NOTE, f"readable by every user of the group {group}", "0640")
        assert told[1].fix == f"`chmod 600 {file}`, unless intended"
        folder.chmod(0o700)
        assert only(secrets.check(found, await ask(found), NOBODY)).level is Level.OK


def test_the_file_of_somebody_else_is_not_closed_to_the_group_that_lets_the_proxy_in(tmp_path: Path) -> None:
    with open_folder() as folder:
        file = put(folder / "token", TOKEN)
        file.chmod(0o644)
        for user, fix in ((os.geteuid(), "600"), (os.geteuid() + 1, "g-w,o-rwx")):
            status = os.stat_result((0o100644, 1, 1, 1, user, os.getegid(), 1, 0, 0, 0))
            assert only(secrets._readers("s0", file, status)).fix == f"`chmod {fix} {file}`"


async def test_a_folder_in_the_place_of_a_file_is_not_to_be_closed(tmp_path: Path) -> None:
    """Its mode lets others in, as that of most folders does: without this bit nobody could enter it."""
    with open_folder() as folder:
        folder.chmod(0o777)
        found = patient(tmp_path, rules(f"file:{folder}"))
        told = only(secrets.check(found, await ask(found), NOBODY))
    needs_care(told, Level.FAULT, "is not a regular file")
    assert "chmod" not in told.fix


async def test_a_path_below_a_home_that_is_not_known_is_not_looked_for_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_folder() as folder:
        put(folder / "token", TOKEN).chmod(0o644)
        monkeypatch.chdir(folder)
        found = patient(tmp_path, rules("file:~/token"), environ={"HOME": ""})
        needs_care(only((await looked(found)).values()), Level.FAULT, "HOME is not set")


# A variable that is not set here ------------------------------------------------------------------


async def test_without_a_proxy_it_is_a_fault_that_names_it(tmp_path: Path) -> None:
    found = only((await looked(patient(tmp_path, rules("env:TRACKER")))).values())
    needs_care(found, Level.FAULT)
    assert found.fact == "`env:TRACKER` is not set in this shell"
    assert found.fix.startswith("set TRACKER where the proxy is started")


@pytest.mark.parametrize(
    "running",
    [
        RunningProxy(200, {"rules": {"secrets": ["s0"]}}),
        RunningProxy(200, {}),
        RunningProxy(200, {"rules": {"secrets": "s1"}}),
        RunningProxy(200, {"rules": {"secrets": ["s0"], "variables": {"TRACKER": 1, "OTHER": "set"}}}),
        RunningProxy(404),
        RunningProxy(problem=UnreadableError("it hangs", "wait")),
    ],
    ids=[
        "names it",
        "does not say",
        "says it otherwise",
        "of another shape",
        "starts",
        "hangs",
    ],
)
async def test_beside_a_proxy_it_is_doubtful_because_that_one_may_have_it(
    running: RunningProxy, tmp_path: Path
) -> None:
    found = only((await looked(patient(tmp_path, rules("env:TRACKER")), running)).values())
    needs_care(
        found,
        Level.WARNING,
        "`env:TRACKER` is not set in this shell",
        "the running proxy does not report whether it has it",
    )
    assert "TRACKER" in found.fix


@pytest.mark.parametrize(("said", "level"), [("set", Level.OK), ("not set", Level.FAULT)])
async def test_a_proxy_that_runs_says_whether_it_was_started_with_it(
    said: str, level: Level, tmp_path: Path
) -> None:
    running = RunningProxy(200, {"rules": {"secrets": ["s0"], "variables": {"TRACKER": said}}})
    found = only((await looked(patient(tmp_path, rules("env:TRACKER")), running)).values())
    assert found.level is level
    assert ("but in the running proxy" in found.fact) is (said == "set")
    assert ("restart the proxy" in found.fix) is (said == "not set")


async def test_beside_a_proxy_whose_rules_do_not_name_it_nobody_has_it(tmp_path: Path) -> None:
    running = RunningProxy(200, {"rules": {"secrets": ["other"]}})
    found = only((await looked(patient(tmp_path, rules("env:TRACKER")), running)).values())
    needs_care(found, Level.FAULT, "and the rules of the running proxy have no such secret")


async def test_one_that_is_set_to_nothing_is_a_fault_beside_a_proxy_too(tmp_path: Path) -> None:
    found = patient(tmp_path, rules("env:TRACKER"), values={"TRACKER": b""})
    told = only((await looked(found, RunningProxy(200, {"rules": {"secrets": ["s0"]}}))).values())
    needs_care(told, Level.FAULT, "`env:TRACKER`", "is empty")


async def test_without_rules_it_is_told_what_has_to_be_done_first(tmp_path: Path) -> None:
    for until in ("rules are found", "the errors above are fixed"):
        found = replace(patient(tmp_path, None), until=until)
        assert only((await looked(found)).values()).fact == f"not checked until {until}"
    assert only((await looked(patient(tmp_path, None))).values()).fact.endswith("rules are found")


async def test_a_folder_in_which_everybody_can_exchange_the_file_is_doubtful(tmp_path: Path) -> None:
    with open_folder() as folder:
        file = put(folder / "token", TOKEN)
        file.chmod(0o600)
        folder.chmod(0o777)
        found = patient(tmp_path, rules(f"file:{file}"))
        told = tuple(secrets.check(found, await ask(found), NOBODY))
    needs_care(told[1], Level.WARNING, "every user can replace")


async def test_a_secret_that_has_ended_is_doubtful(tmp_path: Path) -> None:
    file = private(tmp_path / "kept/token", TOKEN)
    text = rules(f"file:{file}", extra=", expires: 2026-01-01")
    before = patient(tmp_path, text, now=1_700_000_000)
    assert is_content((await looked(before)).values())
    needs_care(
        only((await looked(patient(tmp_path, text))).values()),
        Level.WARNING,
        "expired",
    )


async def test_one_source_of_two_secrets_is_asked_once(tmp_path: Path) -> None:
    script = private(tmp_path / "kept/tool", f"#!/bin/sh\necho x >>{tmp_path}/asked\necho {TOKEN}\n")
    script.chmod(0o700)
    found = await looked(patient(tmp_path, rules(f"command:{script}", f"command:{script}")))
    assert len(found) == 2
    assert is_content(found.values())
    assert (tmp_path / "asked").read_text("utf-8") == "x\n"


async def test_a_command_is_not_given_the_variable_of_another_secret(tmp_path: Path) -> None:
    """Not even where its name is one of those that commands are given."""
    script = private(tmp_path / "kept/gh", f"#!/bin/sh\nenv >{tmp_path}/given\necho {TOKEN}\n")
    script.chmod(0o700)
    found = patient(
        tmp_path,
        rules(f"command:{script}", "env:GITHUB_TOKEN"),
        environ={"GITHUB_TOKEN": OTHER, "LANG": "C"},
    )
    await looked(found)
    given = (tmp_path / "given").read_text("utf-8")
    assert "LANG=C" in given
    assert OTHER not in given


async def test_a_source_that_never_answers_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "SOURCES_TIMEOUT", 0.2)
    script = private(tmp_path / "kept/tool", "#!/bin/sh\nsleep 1000\n")
    script.chmod(0o700)
    needs_care(
        only((await looked(patient(tmp_path, rules(f"command:{script}")))).values()),
        Level.FAULT,
        "has not answered within 0.2 s",
    )


async def test_a_source_that_is_slow_is_doubtful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = private(tmp_path / "kept/token", TOKEN)
    found = patient(tmp_path, rules(f"file:{file}"))
    monkeypatch.setattr(secrets, "SLOW_SOURCE_SECONDS", 0.0)
    needs_care(only((await looked(found)).values()), Level.WARNING, "the first request waits")


async def test_what_is_known_of_any_secret_can_be_found_again(tmp_path: Path) -> None:
    file = private(tmp_path / "kept/token", TOKEN)
    found = patient(tmp_path, rules(f"file:{file}"), values={"ELSEWHERE": OTHER.encode()})
    search = needles(found.captured, await ask(found))
    assert search.mask(TOKEN.encode()).hits
    assert search.mask(OTHER.encode()).hits
    assert not search.mask(b"an innocent text").hits
