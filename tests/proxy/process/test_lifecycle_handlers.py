"""`egress serve --handlers`: a proxy with a file of handlers, as people run it."""

from __future__ import annotations

import http.client
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.command import egress, put
from tests.proxy.serve_process import ServeProcess, until

RULES = """
version: 1
hosts:
  kv.internal: {virtual: true, handler: {use: kv}}
"""
FILE = """
import os
from egress.handlers import Answer, handler

@handler
async def kv(request, context):
    return Answer(200, f"{request.path} {os.getpid()}")
"""


def get(port: int, path: str) -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", f"http://kv.internal{path}", headers={"Host": "kv.internal"})
        response = connection.getresponse()
        return response.status, response.read().decode()


@pytest.mark.parametrize("options", [(), ("--handlers-in-process",)], ids=["own process", "in process"])
def test_a_proxy_with_handlers(tmp_path: Path, options: tuple[str, ...]) -> None:
    put(tmp_path / "handlers.py", FILE)
    with ServeProcess(tmp_path, RULES, ("--handlers", "handlers.py", *options)) as served:
        status, said = get(served.port, "/a")
        path, process = said.split()
        assert (status, path) == (200, "/a")
        # A name that a reload brings, and that is not loaded, denies.
        served.rules.write_text(RULES.replace("use: kv", "use: other"))
        served.ask("POST", "/reload")
        assert get(served.port, "/a")[0] == 403
        assert any("handler.unknown" in line for line in served.err + served.out)
    until(lambda: not Path(f"/proc/{process}").exists(), "the end of the handlers with their proxy")


@pytest.mark.parametrize(
    ("file", "rules", "said"),
    [
        (FILE, RULES.replace("use: kv", "use: kw"), "names the handler kw, which is not loaded"),
        ("1/0\n", RULES, "handlers.py:1: the handlers cannot be loaded (ZeroDivisionError)"),
        ("", RULES, "has no handlers"),
        (None, RULES, "handlers.py cannot be read: no such file or directory"),
    ],
    ids=["name", "fault", "empty", "missing"],
)
def test_a_proxy_does_not_start_with_handlers_that_cannot_be_used(
    tmp_path: Path, file: str | None, rules: str, said: str
) -> None:
    put(tmp_path / "hosts.yaml", rules)
    if file is not None:
        put(tmp_path / "handlers.py", file)
    found = egress(
        *("serve", "--rules", "hosts.yaml", "--listen", "127.0.0.1:0", "--handlers", "handlers.py"),
        cwd=tmp_path,
        env={"EGRESS_RUNTIME_DIR": str(tmp_path / "run")},
    )
    assert found.status in (1, 3), found
    assert said in found.err


def test_rules_with_a_handler_need_its_file(tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", RULES)
    found = egress("serve", "--rules", "hosts.yaml", "--listen", "127.0.0.1:0", cwd=tmp_path)
    assert found.status == 1
    assert "no handlers are loaded" in found.err
    assert "--handlers" in found.err
