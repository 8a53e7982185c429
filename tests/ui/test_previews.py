"""Previews as people use them: `egress up` with a domain and TLS, real sandboxes, programs and a browser."""

from __future__ import annotations

import http.client
import http.server
import json
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from egress import Sandbox
from egress.api.websocket_client import WebSocketClient
from egress.fleet import Preview, RemoteRuntime
from scripts import chromium
from tests.cli.command import Outcome, egress, put
from tests.fleet.memory_fleet import MemoryFleet, spec
from tests.proxy.lab.certificates import Certificates
from tests.runtime.namespace.conftest import namespaces, refusal
from tests.tiers import ALSO
from tests.ui.preview_site import PreviewSite

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

__all__ = ["namespaces", "refusal"]

TIMEOUT = 300
DOMAIN = "previews.example.com"
_SITE = Path(__file__).with_name("preview_site.py")
_FETCH = (
    "const done = arguments[arguments.length - 1];"
    "fetch(arguments[0], {credentials: 'include', mode: arguments[1]})"
    ".then(r => r.text()).then(t => done(t), () => done('refused'))"
)
_TRACES = (
    "return JSON.stringify([document.referrer, navigation.entries().map(each => each.url),"
    " performance.getEntries().map(each => each.name), location.href])"
)
"""Where a page may look for the address that it was opened with."""
pytestmark = [
    pytest.mark.timeout(2 * TIMEOUT),
    pytest.mark.system("/usr/bin/python3", "python3"),
    pytest.mark.usefixtures("namespaces"),
]


@dataclass(frozen=True)
class PreviewHouse:
    """A running `egress up`, and two sandboxes with a page each."""

    folder: Path
    port: int
    trust: ssl.SSLContext
    boxes: tuple[Sandbox, ...]

    def egress(self, *words: str) -> Outcome:
        return _egress(self.folder, *words)

    def shown(self, place: int = 0) -> Preview:
        self.boxes[place].expose(8000)
        return self.boxes[place].previews()[0]

    def connect(self, shown: Preview) -> ssl.SSLSocket:
        sock = socket.create_connection(("127.0.0.1", self.port), 30)
        return self.trust.wrap_socket(sock, server_hostname=urlsplit(shown.origin).hostname)

    def ask(self, shown: Preview, target: str, **headers: str) -> tuple[int, Any]:
        """What a program is answered."""
        with closing(self.connect(shown)) as sock:
            connection = http.client.HTTPSConnection("egress")
            connection.sock = sock
            host = {"Host": urlsplit(shown.origin).netloc}
            connection.request("GET", target, headers={**host, **headers})
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if response.status == 200 else text.decode()


def _egress(folder: Path, *words: str) -> Outcome:
    env = {"EGRESS_RUNTIME_DIR": str(folder / "run"), "EGRESS_STATE_DIR": str(folder / "state")}
    return egress(*words, cwd=folder, env=env, timeout=TIMEOUT)


@pytest.fixture(scope="module", params=["namespace", pytest.param("docker", marks=ALSO)])
def started(request: pytest.FixtureRequest, refusal: str) -> Iterator[PreviewHouse | None]:
    if refusal:
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = int(sock.getsockname()[1])
    certificates = Certificates()
    with tempfile.TemporaryDirectory(prefix="egress-") as name, ExitStack() as parts:
        folder = Path(name)
        put(folder / "hosts.yaml", "version: 1\nhosts: {api.example.com: {allow: all}}\n")
        certificate, key = certificates.write_leaf(folder, f"*.{DOMAIN}")
        up = _egress(
            *(folder, "up", "--rules", "hosts.yaml", "--runtime", request.param),
            *("--preview-listen", f"127.0.0.1:{port}", "--preview-domain", DOMAIN),
            *("--preview-tls-cert", certificate.name, "--preview-tls-key", key.name),
        )
        parts.callback(_egress, folder, "down")
        assert up.status == 0, up
        assert f"previews: https://*.{DOMAIN}:{port}\n" in up.out
        remote = parts.enter_context(RemoteRuntime(folder / "run" / "sandboxes.sock"))
        boxes = tuple(Sandbox.create(name=each, runtime=remote) for each in ("one", "two"))
        for box in boxes:
            box.files.write("site.py", _SITE.read_bytes())
            box.start_process(["python3", "site.py", "8000"])
            box.wait_for_port(8000, timeout=60)
        yield PreviewHouse(folder, port, certificates.trust(), boxes)


@pytest.fixture
def house(started: PreviewHouse | None) -> PreviewHouse:
    assert started is not None
    return started


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome | None]:
    # Instead of a name server, and of a root that would have to be installed for this user.
    flags = (f"host-resolver-rules=MAP *.{DOMAIN} 127.0.0.1", "ignore-certificate-errors")
    browser = chromium.start(tmp_path_factory.mktemp("chromium"), *flags)
    if browser is not None:
        # On a machine with much else to do a page may take longer than usual.
        browser.set_page_load_timeout(TIMEOUT)
        browser.set_script_timeout(TIMEOUT)
    yield browser
    if browser is not None:
        browser.quit()


# Programs -----------------------------------------------------------------------------------------


def test_a_program_with_the_token_reaches_the_port_and_the_sandbox_sees_no_token(house: PreviewHouse) -> None:
    shown = house.shown()
    for target, headers in (
        ("/asked?a=1", {"Egress-Preview-Token": shown.token}),
        (f"/asked?a=1&token={shown.token}", {}),
        (f"/asked?token={shown.token}&a=1", {"Referer": shown.url}),
        ("/asked?a=1", {"Cookie": f"mine=1; __Host-egress-preview={shown.token}"}),
    ):
        status, seen = house.ask(shown, target, **headers)
        assert (status, seen["path"]) == (200, "/asked?a=1")
        assert shown.token not in json.dumps(seen)
        assert ["x-forwarded-proto", "https"] in seen["headers"]
        assert ["host", urlsplit(shown.origin).netloc] in seen["headers"]


def test_without_the_right_token_and_host_nothing_is_answered(house: PreviewHouse) -> None:
    shown, other = house.shown(), house.shown(1)
    assert house.ask(shown, "/asked")[0] == 403
    assert house.ask(shown, "/asked", **{"Egress-Preview-Token": other.token})[0] == 403
    right = {"Egress-Preview-Token": shown.token}
    assert house.ask(shown, "/asked", **right, Host=f"127.0.0.1:{house.port}")[0] == 421
    assert house.ask(shown, "/asked", **right, Host=urlsplit(other.origin).netloc)[0] == 403
    assert house.ask(shown, "/asked", **right, Origin=other.origin)[0] == 403
    assert house.ask(shown, "/asked", **right, Origin=shown.origin)[0] == 200


def test_a_websocket_of_a_program_echoes(house: PreviewHouse) -> None:
    shown = house.shown()

    @dataclass(frozen=True)
    class PreviewEndpoint:
        host: str = urlsplit(shown.origin).netloc
        headers: tuple[tuple[str, str], ...] = (("egress-preview-token", shown.token),)

        def connect(self) -> socket.socket:
            return house.connect(shown)

    endpoint = PreviewEndpoint()
    with closing(WebSocketClient(endpoint.connect(), endpoint, "/socket")) as stream:
        assert stream.shake_hands() is None
        stream.send_text(b"hello")
        assert stream.receive() == "hello"


def test_the_command_line_shows_lists_and_ends_previews(house: PreviewHouse) -> None:
    house.boxes[0].unexpose(8000)
    made = house.egress("expose", "one", "8000", "--expires", "2h")
    (shown,) = house.boxes[0].previews()
    assert (made.status, made.out) == (0, f"{shown.url}\n")
    assert shown.left is not None
    assert 7000 < shown.left <= 7200
    listed = house.egress("expose").out
    assert shown.origin in listed
    assert shown.token not in listed + house.egress("ps").said
    assert house.ask(shown, f"/asked?token={shown.token}")[0] == 200
    assert house.egress("expose", "one", "8000", "--remove").status == 0
    assert house.ask(shown, f"/asked?token={shown.token}")[0] == 421


def test_a_preview_ends_by_itself(house: PreviewHouse) -> None:
    house.boxes[0].unexpose(8000)
    url = house.boxes[0].expose(8000, expires=0.2)
    # Listed by the clock, so no tick of a thread is waited for.
    while house.boxes[0].previews():
        time.sleep(0.01)
    shown = Preview("one", 8000, url.partition("/?")[0], url.partition("token=")[2])
    assert house.ask(shown, f"/asked?token={shown.token}")[0] == 421


def test_a_token_is_in_no_file_of_the_proxy(house: PreviewHouse) -> None:
    shown = house.shown()
    house.ask(shown, f"/asked?token={shown.token}")
    house.ask(shown, "/asked", **{"Egress-Preview-Token": shown.token})
    files = [each for each in house.folder.rglob("*") if each.is_file()]
    assert (house.folder / "state" / "up.log") in files
    assert not [each for each in files if shown.token.encode() in each.read_bytes()]


# A browser ----------------------------------------------------------------------------------------


def test_a_browser_opens_the_address_and_keeps_no_token_in_it(house: PreviewHouse, browser: Chrome) -> None:
    shown = house.shown()
    browser.get(shown.url)
    assert (browser.current_url, browser.title) == (f"{shown.origin}/", "A preview")
    said = "return document.getElementById('said').textContent"
    while browser.execute_script(said) == "nothing yet":
        time.sleep(0.01)
    assert browser.execute_script(said) == "hello"
    # The cookie with the token is for no script, and the page's own one is for this host.
    assert browser.execute_script("return document.cookie") == "own=1"
    own, ours = sorted(browser.get_cookies(), key=lambda each: not each["name"].startswith("own"))
    assert (own["name"], own["domain"]) == ("own", urlsplit(shown.origin).hostname)
    assert (ours["name"], ours["domain"]) == ("__Host-egress-preview", urlsplit(shown.origin).hostname)
    assert (ours["httpOnly"], ours["secure"], ours["sameSite"]) == (True, True, "Strict")
    seen = json.loads(browser.execute_async_script(_FETCH, f"{shown.origin}/asked", "cors"))
    assert ["referer", f"{shown.origin}/"] in seen["headers"]
    assert shown.token not in json.dumps(seen)
    assert shown.token not in browser.execute_script(_TRACES)


def test_one_preview_reads_nothing_of_another(house: PreviewHouse, browser: Chrome) -> None:
    """Previews of one domain are one site: the browser sends the cookie, and the answer is a refusal."""
    shown, other = house.shown(), house.shown(1)
    for each in (other, shown):
        browser.get(each.url)
    assert "/asked" in browser.execute_async_script(_FETCH, f"{shown.origin}/asked", "cors")
    assert browser.execute_async_script(_FETCH, f"{other.origin}/asked", "cors") == "refused"
    assert browser.execute_async_script(_FETCH, f"{other.origin}/asked", "no-cors") in ("refused", "")
    opened = (
        "const done = arguments[arguments.length - 1];"
        "const socket = new WebSocket(arguments[0].replace('http', 'ws') + '/socket');"
        "socket.onopen = () => done('open'); socket.onerror = () => done('refused')"
    )
    assert browser.execute_async_script(opened, shown.origin) == "open"
    assert browser.execute_async_script(opened, other.origin) == "refused"
    framed = (
        "const done = arguments[arguments.length - 1], frame = document.createElement('iframe');"
        "frame.onload = () => done(frame.contentDocument === null ? 'closed' : 'open');"
        "frame.src = arguments[0]; document.body.append(frame)"
    )
    assert browser.execute_async_script(framed, f"{shown.origin}/") == "open"
    assert browser.execute_async_script(framed, f"{other.origin}/") == "closed"


def test_a_link_on_another_page_opens_the_preview(
    house: PreviewHouse, browser: Chrome, tmp_path: Path
) -> None:
    shown = house.shown()
    chat = put(tmp_path / "chat.html", f'<a href="{shown.url}">look at this</a>')
    browser.get(chat.as_uri())
    browser.execute_script("document.querySelector('a').click()")
    while browser.title != "A preview":
        time.sleep(0.01)
    assert browser.current_url == f"{shown.origin}/"
    assert shown.token not in browser.execute_script(_TRACES)


def test_a_page_that_ended_says_so(house: PreviewHouse, browser: Chrome) -> None:
    shown = house.shown()
    browser.get(shown.url)
    house.boxes[0].unexpose(8000)
    browser.refresh()
    assert "No preview has this name." in browser.page_source


def test_on_this_machine_alone_each_preview_is_a_site_of_its_own(browser: Chrome) -> None:
    """Without a wish of the operator: below `localhost`, where no page sets cookies for the others."""
    estate = MemoryFleet()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), PreviewSite) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        shown = []
        for name in ("one", "two"):
            estate.fleet.create(spec(name))
            estate.fleet.start(name)
            estate.runtime.ports[name, 8000] = ("127.0.0.1", server.server_port)
            shown.append(estate.fleet.expose(name, 8000))
        browser.get(shown[0].url)
        assert (browser.current_url, browser.title) == (f"{shown[0].origin}/", "A preview")
        browser.execute_script("document.cookie = 'taken=1; domain=localhost'")
        assert browser.execute_script("return document.cookie") == "own=1"
        browser.get(shown[1].url)
        assert "taken" not in browser.execute_script("return document.cookie")
        assert browser.execute_async_script(_FETCH, f"{shown[0].origin}/asked", "cors") == "refused"
        estate.fleet.close()
        server.shutdown()
        serving.join()
