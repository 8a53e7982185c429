"""A machine on which every proxy and CA variable is set to something else already."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from egress.runtime.kit.shell_exports import MISLEADING_VARIABLES
from egress.runtime.kit.variables import KIT_VARIABLES, PROXY_VARIABLES
from tests.cli.command import Outcome, egress, environment
from tests.fleet.memory_fleet import short_folder
from tests.proxy.injecting_proxy import NAME, SECRET, certs, made
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.serve_process import ServeProcess
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["namespaces", "refusal"]

DEAD = "http://127.0.0.1:9"
"""Nobody listens there."""
ELSEWHERE = {
    **dict.fromkeys((each.name for each in KIT_VARIABLES), "/else/where"),
    **dict.fromkeys(MISLEADING_VARIABLES, "/else/where"),
    **dict.fromkeys((each.name for each in PROXY_VARIABLES), DEAD),
    **{name: DEAD for name in MISLEADING_VARIABLES if "proxy" in name.lower()},
    # Every JVM would print what it cannot use.
    "JAVA_TOOL_OPTIONS": "",
}
PYTHON = (
    f"{sys.executable} -c \"import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).status, end='')\""
)

pytestmark = pytest.mark.system("curl", "curl")


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(certs.good(NAME), wants=f"Bearer {SECRET}") as upstream:
        yield upstream


def in_a_terminal(served: ServeProcess, line: str, variables: Mapping[str, str]) -> Outcome:
    script = f"egress() {{ '{sys.executable}' -m egress \"$@\"; }}\n{line}"
    run = subprocess.run(
        ["sh", "-c", script],
        cwd=served.folder,
        env=environment(served.folder, {**served.env, **variables}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return Outcome(run.returncode, run.stdout, run.stderr)


@pytest.mark.parametrize(
    "client", ["curl -sS -o /dev/null -w '%{http_code}'", PYTHON], ids=["curl", "python"]
)
async def test_a_terminal_that_has_them_all_is_pointed_at_the_proxy(
    client: str, tmp_path: Path, upstream: RawUpstream
) -> None:
    ask = f"{client} https://{NAME}:{upstream.port}/echo"
    with made(tmp_path, upstream) as served:
        done = await asyncio.to_thread(in_a_terminal, served, f'eval "$(egress env)"\n{ask}', ELSEWHERE)
        assert (done.err, done.out) == ("", "200")
        # The twin: without the commands the same client gets nowhere.
        assert (await asyncio.to_thread(in_a_terminal, served, ask, ELSEWHERE)).out != "200"
        ended = await asyncio.to_thread(
            in_a_terminal, served, 'eval "$(egress env)"; eval "$(egress env --unset)"; env', {}
        )
        assert not [name for name in ELSEWHERE if f"\n{name}=" in f"\n{ended.out}"]


async def test_the_password_of_a_proxy_is_read_from_its_file(tmp_path: Path, upstream: RawUpstream) -> None:
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text("open-sesame-open\n")
    ask = f"curl -sS -o /dev/null -w '%{{http_code}}' https://{NAME}:{upstream.port}/echo"
    with made(tmp_path, upstream) as served:
        served.kill()
        served.arguments += ["--password-file", str(password)]
        served.start()
        named = f'eval "$(egress env --password-file {password})"\n{ask}'
        assert (await asyncio.to_thread(in_a_terminal, served, named, ELSEWHERE)).out == "200"
        without = await asyncio.to_thread(in_a_terminal, served, f'eval "$(egress env)"\n{ask}', ELSEWHERE)
        assert without.out == "000"


@pytest.mark.usefixtures("namespaces")
async def test_a_run_on_such_a_machine_is_like_any_other(tmp_path: Path, upstream: RawUpstream) -> None:
    """Neither the proxy nor the sandbox takes them over."""
    url = f"https://{NAME}:{upstream.port}/echo"
    ask = ("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", url)
    with made(tmp_path, upstream) as proxy, short_folder() as folder:
        proxy.kill()
        words = ["run", "-q", "--runtime", "namespace", "--rules", "hosts.yaml", "--runtime-dir", str(folder)]
        trust = ["--upstream-ca", str(tmp_path / "upstream-ca.pem"), "--resolve", f"{NAME}=127.0.0.1"]
        done = await asyncio.to_thread(
            lambda: egress(*words, *trust, "--", *ask, cwd=tmp_path, env=ELSEWHERE)
        )
    assert (done.err, done.out) == ("", "200")
