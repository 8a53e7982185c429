"""What the handle promises of ports and clones, where there is a network and a proxy behind it."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import pytest

from egress.runtime.errors import UnsupportedError
from egress.sandbox.errors import GitError, LogEndedError
from egress.sandbox.handle import Sandbox

SERVER = (
    "import http.server as h\n"
    "class A(h.BaseHTTPRequestHandler):\n"
    "  def do_GET(self):\n"
    "    self.send_response(200); self.send_header('Content-Length', '5'); self.end_headers()\n"
    "    self.wfile.write(b'hello')\n"
    "h.HTTPServer(('0.0.0.0', 8000), A).serve_forever()"
)


def shown(url: str) -> bytes:
    """What a browser sees: it asks this machine for any name below localhost, and keeps the cookie."""
    parts = urlsplit(url)
    assert parts.port is not None
    asked = f"{parts.path}?{parts.query}"
    headers = {"Host": parts.netloc}
    for _ in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=20)
        connection.request("GET", asked, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status == 200:
            return body
        assert answer.status in (302, 303, 307), body
        headers["Cookie"] = answer.headers["Set-Cookie"].partition(";")[0]
        asked = urlsplit(answer.headers["Location"]).path or "/"
    raise AssertionError("it leads from one address to the next")


def a_port_is_waited_for_and_shown(box: Sandbox) -> None:
    with pytest.raises(TimeoutError):
        box.wait_for_port(8000, timeout=0.2)
    with box.spawn(["python3", "-c", SERVER]) as server:
        server.wait_for_port(8000, timeout=30)
        url = box.expose(8000)
        assert f"//8000-{box.name}-" in url
        assert shown(url) == b"hello"
        box.unexpose(8000)
        box.unexpose(8000)


def a_process_that_ends_is_not_waited_for(box: Sandbox) -> None:
    with pytest.raises(LogEndedError):
        box.spawn("exit 1").wait_for_port(8001, timeout=30)


def a_clone_that_no_rule_allows_is_an_error_of_its_family(box: Sandbox) -> None:
    """Whatever is said by the proxy, git and the image: it is a typed error that quotes none of them."""
    with pytest.raises((GitError, UnsupportedError)) as failed:
        box.git.clone("https://git.nowhere.test/team/project", timeout=60)
    assert "nowhere" not in f"{failed.value} {failed.value.hint}"
    assert not box.files.exists("project/.git")


CASES = (
    a_port_is_waited_for_and_shown,
    a_process_that_ends_is_not_waited_for,
    a_clone_that_no_rule_allows_is_an_error_of_its_family,
)
