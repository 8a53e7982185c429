"""Plugins of a kubeconfig: run once for as long as a token lives, bounded, and never quoted."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import stat
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from egress.cluster.api_call import ApiRefusedError, call
from egress.cluster.api_server import ClusterApi
from egress.cluster.exec_plugin import EXPIRY_MARGIN, ExecPlugin
from egress.cluster.kubeconfig import read_kubeconfig
from egress.command_process import MAX_OUTPUT_BYTES
from egress.environment import read_environment
from egress.errors import EgressError
from tests.cluster.fake_api_server import TOKEN, FakeApiServer, running
from tests.cluster.test_kubeconfig import CANARY, PEM, config, encoded, written

VERSION: Final = "client.authentication.k8s.io/v1"


def program(folder: Path, script: str) -> Path:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\necho run >>{folder}/runs\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def credential(token: str = TOKEN, version: str = VERSION, **status: object) -> str:
    value = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": token, **status}}
    return f"cat <<'END'\n{json.dumps(value)}\nEND"


def api_of(folder: Path, script: str, **more: Any) -> ClusterApi:  # noqa: ANN401 - JSON
    program(folder, script)
    user = {"exec": {"apiVersion": VERSION, "command": "./plugin", **more}}
    return read_kubeconfig([written(folder, config(user))], environ=read_environment())


def plugin_of(api: ClusterApi) -> ExecPlugin:
    assert api.plugin is not None
    return api.plugin


def runs(folder: Path) -> int:
    return (folder / "runs").read_text().count("run")


def test_a_token_is_kept_until_shortly_before_it_expires(tmp_path: Path) -> None:
    api = api_of(tmp_path, credential(expirationTimestamp="2026-11-18T08:26:40Z"))
    plugin, ends = plugin_of(api), datetime(2026, 11, 18, 8, 26, 40, tzinfo=UTC).timestamp()
    for moment, count in ((ends - 3600, 1), (ends - EXPIRY_MARGIN - 1, 1), (ends - EXPIRY_MARGIN, 2)):
        plugin.now = lambda moment=moment: moment  # type: ignore[misc]
        assert api.token() == TOKEN.encode()
        assert runs(tmp_path) == count
    assert TOKEN not in repr(api)
    assert TOKEN not in repr(plugin)


def test_a_token_without_an_end_is_kept_until_it_is_refused(tmp_path: Path) -> None:
    api = api_of(tmp_path, credential())
    assert [api.token() for _ in range(3)] == [TOKEN.encode()] * 3
    assert runs(tmp_path) == 1
    plugin_of(api).forget()
    assert api.token() == TOKEN.encode()
    assert runs(tmp_path) == 2


def test_a_plugin_gets_its_words_its_variables_and_no_terminal(tmp_path: Path) -> None:
    script = f'printf "%s\\n" "$1" "$REGION" "$KUBERNETES_EXEC_INFO" >{tmp_path}/seen; cat >>{tmp_path}/seen'
    more = {"args": ["get token"], "env": [{"name": "REGION", "value": "north"}], "provideClusterInfo": True}
    api_of(tmp_path, f"{script}\n{credential()}", **more).token()
    word, region, info = (tmp_path / "seen").read_text().splitlines()
    assert (word, region) == ("get token", "north")
    cluster = {"server": "https://cluster.example:6443", "certificate-authority-data": encoded(PEM)}
    assert json.loads(info) == {
        "apiVersion": VERSION,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": cluster},
    }


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f"echo {CANARY} >&2; echo {CANARY}; exit 3", "ended with status 3"),
        (f"echo {CANARY}; kill -9 $$", "killed by signal 9"),
        (f"echo '{{\"{CANARY}\": 1}}'", "printed no ExecCredential"),
        (credential(CANARY, "client.authentication.k8s.io/v1beta1"), "no ExecCredential of"),
        (credential(""), "gave no token"),
        (credential(f"{CANARY}\\nHost: evil"), "holds no token"),
        (credential(CANARY, expirationTimestamp="2026-11-20T08:26:40"), "no time zone"),
        (f"head -c {MAX_OUTPUT_BYTES + 1} /dev/zero; echo {CANARY}", "printed more than"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named_and_never_quoted(
    tmp_path: Path, script: str, message: str
) -> None:
    with pytest.raises(EgressError, match=message) as raised:
        api_of(tmp_path, script).token()
    assert CANARY not in f"{raised.value.message} {raised.value.hint} {raised.value!r}"
    assert raised.value.__cause__ is None


def test_a_plugin_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    api = api_of(tmp_path, f"sleep 300 & echo $! >{tmp_path}/child; wait")
    plugin_of(api).seconds = 0.5
    with pytest.raises(EgressError, match=r"no token within 0\.5 seconds"):
        api.token()
    child = int((tmp_path / "child").read_text())
    end = time.monotonic() + 20
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "no command of"),
        ({"command": ""}, "no command of"),
        ({"interactiveMode": "Always"}, "asks for a terminal"),
        ({"env": [{"name": "A=B", "value": CANARY}]}, "a name with `=`"),
        ({"args": [5]}, "not what is expected"),
    ],
)
def test_a_kubeconfig_with_an_unusable_plugin_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises(EgressError, match=message) as raised:
        api_of(tmp_path, credential(), **change)
    assert CANARY not in f"{raised.value.message} {raised.value.hint}"
    assert not (tmp_path / "runs").exists()


def test_a_program_is_found_by_absolute_folders_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = api_of(tmp_path, credential(), command="plugin")
    monkeypatch.chdir(tmp_path)
    for path in (".", "", "/nonexistent:."):
        plugin_of(api).environ = {"PATH": path}
        with pytest.raises(EgressError, match="is not installed"):
            api.token()
    plugin_of(api).environ = {"PATH": f"{tmp_path}:{read_environment()['PATH']}"}
    assert api.token() == TOKEN.encode()


async def test_a_refused_token_is_asked_for_again(tmp_path: Path) -> None:
    (tmp_path / "account").mkdir()
    async with running(tmp_path / "account", FakeApiServer()) as fake:
        cluster = {"server": f"https://127.0.0.1:{fake.port}", "certificate-authority-data": encoded(PEM)}
        first = credential("old")
        script = f"if [ $(grep -c run {tmp_path}/runs) = 1 ]; then {first}\nelse {credential()}\nfi"
        program(tmp_path, script)
        user = {"exec": {"apiVersion": VERSION, "command": "./plugin"}}
        api = read_kubeconfig([written(tmp_path, config(user, cluster))], environ=read_environment())
        path = "/api/v1/namespaces/agents/pods"
        with pytest.raises(ApiRefusedError, match="401"):
            await asyncio.to_thread(call, api, "GET", path)
        assert (await asyncio.to_thread(call, api, "GET", path))["kind"] == "List"
    assert runs(tmp_path) == 2


def test_a_program_with_many_open_files_gets_a_token(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2048), hard))
    try:
        with ExitStack() as stack:
            for _ in range(1100):
                stack.enter_context(open(os.devnull, "rb"))  # noqa: PTH123 - a descriptor
            assert api_of(tmp_path, credential()).token() == TOKEN.encode()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


_UNSEEN = """
import signal, sys
from pathlib import Path
from egress.cluster.kubeconfig import read_kubeconfig
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
api = read_kubeconfig([Path(sys.argv[1])], environ={"PATH": "/usr/bin:/bin"})
try:
    print("token", api.token())
except Exception as error:
    print(error)
"""


@pytest.mark.parametrize("pause", ["", "sleep 0.1;"])
def test_a_status_that_nobody_can_know_is_no_token(tmp_path: Path, pause: str) -> None:
    """Where SIGCHLD is ignored the kernel forgets how a child ended, and `Popen` says 0."""
    api_of(tmp_path, f"{pause} {credential(CANARY)}\nexit 3")
    done = subprocess.run(
        [sys.executable, "-c", _UNSEEN, str(tmp_path / "config")], capture_output=True, text=True, check=False
    )
    assert "the plugin plugin ended with an unknown status" in done.stdout, done.stderr
    assert CANARY not in done.stdout + done.stderr
