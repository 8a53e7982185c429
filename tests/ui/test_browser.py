"""The review page in Chromium: what a reviewer does, and what a sandbox would like to do to a reviewer."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from jinja2 import Template
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from egress.ui import listen
from scripts import chromium
from tests.conftest import IS_NIGHTLY
from tests.ui.served_page import TOKEN, ServedPage
from tests.unit.ui.page_app import denied, line

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

TEXT = "<main>{}</main>"
PAYLOADS = {
    "<script>window.pwned=1</script>": TEXT,
    "<img src=x onerror=window.pwned=1>": TEXT,
    '"><svg onload=window.pwned=1>': '<input value="{}">',
    "' autofocus onfocus='window.pwned=1": "<input value='{}'>",
    "javascript:window.pwned=1": '<a href="{}">go on</a>',
    "</title><script>window.pwned=1</script>": "<title>{}</title>",
    "</option></select><img src=x onerror=window.pwned=1>": "<select><option>{}</option></select>",
}
"""What a sandbox would like to run at a reviewer, each with a page on which it does run."""
TEMPLATE = "{{7*191}}{%x%}\u202e\x1b]0;x\x07"
"""The same for whoever fills in templates, and for terminals."""
EVIL = [*PAYLOADS, TEMPLATE]
COMES_TO = "1337"
FIELDS = (
    *("sandbox", "profile", "listener", "entry", "connection", "scheme", "host", "address", "sni", "method"),
    *("path", "code", "rule", "place", "client_tls", "upstream_tls", "alpn", "upstream_alpn", "policy"),
)
"""Every field of a line that is text, but for the id and the time, without which there is no page of it."""
FILTERS = (
    "grep",
    "host",
    "sandbox",
    "secret",
    "rule",
    "code",
    "event",
    "method",
    "verdict",
    "status",
    "since",
)
"""What an address can ask for: a link to the page is enough to choose it."""
SCHEMES: tuple[chromium.Scheme, ...] = ("light", "dark")
MARKUP = "return document.querySelectorAll('main img, main script, [href^=javascript]').length"


def until(browser: Chrome, script: str, what: object = True) -> object:
    """What a script comes to, once it is that; the page has some seconds for it."""
    from selenium.webdriver.support.ui import WebDriverWait

    def holds(it: Chrome) -> bool:
        return bool(it.execute_script(f"return {script}") == what)

    WebDriverWait(browser, 20).until(cast("Callable[[object], bool]", holds))
    return what


def text(browser: Chrome) -> str:
    return str(browser.execute_script("return document.querySelector('main').innerText"))


def faults(browser: Chrome) -> list[str]:
    """What the browser complained of; a violation of the policy is among it."""
    log = browser.get_log("browser")  # type: ignore[no-untyped-call]
    return [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]


def test_the_link_lets_in_and_the_token_leaves_the_address(browser: Chrome, served: ServedPage) -> None:
    browser.get(served.root)
    assert "needs a login" in browser.page_source
    browser.get(served.link)
    assert browser.current_url == f"{served.root}/"
    assert TOKEN not in browser.page_source
    assert browser.execute_script("return document.cookie") == ""
    assert browser.execute_script("return document.querySelectorAll('#lines tr').length") == 3


def test_a_filter_that_is_typed_stands_in_the_address(browser: Chrome, served: ServedPage) -> None:
    browser.get(served.link)
    browser.find_element("name", "grep").send_keys("gists")
    browser.find_element("css selector", "form.filters button").click()
    until(browser, "location.search.includes('grep=gists')")
    assert browser.execute_script("return document.querySelectorAll('#lines tr').length") == 1
    browser.find_element("css selector", ".chip").click()
    until(browser, "document.querySelectorAll('#lines tr').length", 3)


def test_new_lines_come_by_themselves(browser: Chrome, served: ServedPage) -> None:
    browser.get(served.link)
    browser.execute_script("window.same = true")
    served.more(line(7, path="/brand-new"))
    until(browser, "document.querySelector('#lines').innerText.includes('/brand-new')")
    assert browser.execute_script("return window.same"), "the page was loaded anew"


def test_the_small_chart_comes_after_the_list(browser: Chrome, served: ServedPage) -> None:
    browser.get(served.link)
    until(browser, "document.querySelectorAll('#strip rect.deny').length", 1)


NEWEST_TIME = "document.querySelector('#lines td.time time').textContent.trim()"


def test_times_are_shown_in_the_zone_of_the_browser_where_the_reader_likes_that(
    browser: Chrome, served: ServedPage
) -> None:
    browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    browser.get(served.link)
    until(browser, NEWEST_TIME, "2026-03-01 09:30:03")
    browser.find_element("css selector", "button.zone-switch").click()
    until(browser, NEWEST_TIME, "2026-03-01 15:00:03")
    # The choice stays, for the next page and for lines that come later.
    browser.refresh()
    until(browser, NEWEST_TIME, "2026-03-01 15:00:03")
    served.more(line(7))
    until(browser, NEWEST_TIME, "2026-03-01 15:00:07")
    browser.find_element("css selector", "button.zone-switch").click()
    until(browser, NEWEST_TIME, "2026-03-01 09:30:07")


def test_dragging_over_a_chart_leads_to_the_lines_of_that_time(browser: Chrome, served: ServedPage) -> None:
    from selenium.webdriver import ActionChains

    served.more(*(line(n, time=f"2026-03-01T{n:02d}:00:00.000000Z") for n in range(10, 18)))
    browser.get(served.link)
    browser.get(f"{served.root}/charts")
    columns = browser.find_elements("css selector", "figure:first-of-type svg a[data-since]")
    first, last = columns[1], columns[3]
    said = last.find_element("css selector", "title").get_attribute("textContent")
    wanted = (first.get_attribute("data-since"), last.get_attribute("data-until"))
    ActionChains(browser).click_and_hold(first).move_to_element(last).perform()
    assert browser.find_element("css selector", "figure:first-of-type .readout").text == said
    ActionChains(browser).release(last).perform()
    until(browser, "location.search.includes('until=')")
    asked = dict(parse_qsl(urlsplit(browser.current_url).query))
    assert (asked["since"], asked["until"]) == wanted


def test_an_id_is_copied(browser: Chrome, served: ServedPage) -> None:
    browser.get(served.link)
    browser.get(f"{served.root}/request?id=r-2")
    # Seen where it is written: the policy of the page lets no script read the clipboard.
    browser.execute_script("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    browser.find_element("css selector", "button.copy").click()
    until(browser, "window.copied", "r-2")


def test_from_a_denial_to_the_yaml(browser: Chrome, served: ServedPage) -> None:
    browser.get(served.link)
    browser.find_element("css selector", "#lines tr.deny td.time a").click()
    until(browser, "location.pathname", "/request")
    browser.find_element("link text", "What would allow it?").click()
    until(browser, "location.pathname", "/suggest")
    assert "/gists" in text(browser)
    assert "methods: [POST]" in text(browser)


def test_nothing_is_fetched_elsewhere_and_the_policy_is_not_offended(
    browser: Chrome, served: ServedPage
) -> None:
    browser.get(served.link)
    faults(browser)
    for path in ("/", "/charts", "/rules", "/draft?what=draft&since=7d", "/request?id=r-2", "/chain"):
        browser.get(served.root + path)
        names = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
        assert names
        assert all(name.startswith(served.root) for name in names)
    assert faults(browser) == []


# Attackers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", EVIL)
def test_no_text_of_a_line_runs(browser: Chrome, served: ServedPage, payload: str) -> None:
    """On every page; in the gate the first text is on every page, and each other one on a third of them."""
    bad = dict.fromkeys(FIELDS, payload)
    secret = [{"secret": payload, "slot": payload}]
    scrubbed = {payload: 2}
    served.more(line(4, **bad, injected=secret, scrubbed=scrubbed), denied(5, **bad))
    served.more(line(6, event=payload, verdict=None))
    served.more(line(8, **{payload: payload}), line(9, request=payload))
    served.more(line(10, event="pruned", by=payload, files=1, verdict=None, host=""))
    browser.get(served.link)
    ids = ("r-4", "r-5", "r-6", "r-8", "r-10")
    paths = ["/", "/charts", "/rules", "/suggest?id=r-5", *(f"/request?id={name}" for name in ids)]
    paths += [f"/draft?what={what}&since=7d" for what in ("draft", "replay")]
    typed = quote(payload)
    paths += [f"/{kind}?name={typed}" for kind in ("sandbox", "host", "secret", "rule")]
    paths += [f"/request?id={typed}", f"/draft?what=draft&profile={typed}", f"/draft?since={typed}"]
    paths += [f"/?{name}={typed}" for name in ("grep", "host")] + [f"/charts?grep={typed}"]
    every = "&".join(f"{name}={typed}" for name in FILTERS)
    paths += [f"/?{every}", f"/charts?{every}"]
    place = EVIL.index(payload)
    for path in paths[place % 3 :: 3] if place and not IS_NIGHTLY else paths:
        browser.get(served.root + path)
        browser.execute_script("document.querySelectorAll('details').forEach(it => it.open = true)")
        assert browser.execute_script("return window.pwned") is None, path
        assert browser.execute_script(MARKUP) == 0, path
        assert COMES_TO not in text(browser), path
        assert not {"\u202e", "\x1b"} & set(browser.page_source), path


@pytest.mark.parametrize("payload", PAYLOADS)
def test_the_same_text_does_run_on_a_page_that_escapes_nothing(
    payload: str, browser: Chrome, tmp_path: Path
) -> None:
    """The positive control: what the test above looks for can happen."""

    async def bare(_: Request) -> Response:
        return HTMLResponse(PAYLOADS[payload].format(payload))

    with ServedPage(tmp_path, Starlette(routes=[Route("/", bare)])) as page:
        browser.get(page.root)
        browser.execute_script("document.querySelector('a')?.click()")
        until(browser, "window.pwned", 1)


def test_the_same_template_comes_to_something_where_it_is_one() -> None:
    assert COMES_TO in Template(TEMPLATE.replace("{%x%}", "")).render()


def test_another_port_of_this_machine_reads_nothing(
    browser: Chrome, served: ServedPage, tmp_path: Path
) -> None:
    """A preview of a sandbox lives on such a port, and gets the cookie of the page."""
    browser.get(served.link)

    async def bare(_: Request) -> Response:
        return HTMLResponse("<main>of a sandbox</main>")

    script = (
        "const done = arguments[arguments.length - 1];"
        "fetch(arguments[0], {credentials: 'include', mode: arguments[1]})"
        ".then(r => r.text()).then(t => done(t), () => done('refused'))"
    )
    with ServedPage(tmp_path, Starlette(routes=[Route("/", bare)])) as other:
        browser.get(other.root)
        assert browser.execute_async_script(script, f"{served.root}/", "cors") == "refused"
        assert browser.execute_async_script(script, f"{served.root}/", "no-cors") in ("refused", "")
    browser.get(served.root)
    assert browser.execute_async_script(script, f"{served.root}/", "cors").count("api.github.com")


# Looks ----------------------------------------------------------------------------------------


def test_dark_where_the_reviewer_likes_it_dark(browser: Chrome, served: ServedPage) -> None:
    grounds = []
    for scheme in SCHEMES:
        chromium.prefer(browser, scheme)
        browser.get(served.link)
        grounds.append(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(250, 250, 248)", "rgb(20, 24, 28)"]


CONTRAST = """
const parts = (text) => text.match(/[0-9.]+/g).map(Number).slice(0, 3);
const light = (text) => parts(text)
    .map((of) => of / 255)
    .map((of) => (of <= 0.03928 ? of / 12.92 : ((of + 0.055) / 1.055) ** 2.4))
    .reduce((sum, of, at) => sum + of * [0.2126, 0.7152, 0.0722][at], 0);
const style = getComputedStyle(document.querySelector(arguments[0]));
const [dim, bright] = [light(style.color), light(style.backgroundColor)].sort((a, b) => a - b);
return (bright + 0.05) / (dim + 0.05);
"""
LOOK = """
const of = (name, key) => getComputedStyle(document.querySelector(name))[key];
return [of('.verdict.' + arguments[0], 'color'), of('.verdict.' + arguments[0], 'backgroundColor'),
        of('#lines tr.' + arguments[0], 'boxShadow'), of('#strip rect.' + arguments[0], 'fill')];
"""


def test_a_cut_request_does_not_look_like_a_denied_one(browser: Chrome, served: ServedPage) -> None:
    """In colour, and in shape for whoever does not see these colours."""
    served.more(line(7, verdict="cut", code="limit.response_body", bytes_up=100))
    for scheme in SCHEMES:
        chromium.prefer(browser, scheme)
        browser.get(served.link)
        until(browser, "document.querySelectorAll('#strip rect.cut').length", 1)
        looks = [browser.execute_script(LOOK, verdict) for verdict in ("allow", "deny", "cut")]
        badges = [each[0] for each in looks]
        assert len(set(badges)) == 3, scheme
        for deny, cut in zip(looks[1], looks[2], strict=True):
            assert deny != cut, scheme
        outline = "getComputedStyle(document.querySelector('.verdict.{}')).outlineStyle"
        assert browser.execute_script(f"return {outline.format('cut')}") == "dashed"
        assert browser.execute_script(f"return {outline.format('deny')}") == "none"
        assert browser.execute_script(CONTRAST, ".verdict.cut") >= 4.5, scheme


def test_a_narrow_window_is_never_scrolled_sideways(browser: Chrome, served: ServedPage) -> None:
    long = "a" * 1500
    served.more(line(4, path=f"/{long}", host=f"{long}.example", sandbox=long, rule=f"{long}#{long}"))
    chromium.size(browser, 390, 800)
    browser.get(served.link)
    paths = ("/", "/charts", "/rules", "/draft?what=replay&since=7d", "/draft?what=draft&since=7d", "/chain")
    for path in (*paths, "/request?id=r-4", "/suggest?id=r-2", "/host?name=api.github.com"):
        browser.get(served.root + path)
        width = browser.execute_script("return document.documentElement.scrollWidth")
        assert width <= 390, f"{path} is {width} wide"


def test_the_keyboard_is_enough(browser: Chrome, served: ServedPage) -> None:
    from selenium.webdriver import ActionChains, Keys

    browser.get(served.link)
    ActionChains(browser).send_keys("j", "j").perform()
    until(browser, "document.activeElement.closest('tr')?.rowIndex", 2)
    outline = browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    ActionChains(browser).send_keys("k", "/").perform()
    until(browser, "document.activeElement.name", "grep")
    ActionChains(browser).send_keys("gists", Keys.ENTER).perform()
    until(browser, "document.querySelectorAll('#lines tr').length", 1)
    ActionChains(browser).send_keys("j", Keys.ENTER).perform()
    until(browser, "location.pathname", "/request")


# Sockets --------------------------------------------------------------------------------------


def test_a_unix_socket_is_for_its_owner_alone(tmp_path: Path) -> None:
    place = tmp_path / "review.sock"
    with listen.listen_on_socket(place):
        assert place.stat().st_mode & 0o777 == 0o600
    # Left over: nobody serves it any more.
    with listen.listen_on_socket(place), socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(place))
