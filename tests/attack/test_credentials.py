"""Attacks on the step that puts credentials into a request head.

Each class stands beside its good twin: a step that refuses everything would prove nothing.
"""

from __future__ import annotations

import base64
import copy
import pickle
import traceback
from urllib.parse import quote

import pytest

from egress.credentials import Placeholders, apply_credentials, secret_from
from egress.errors import SecretValueError
from egress.types import (
    Head,
    InjectBasic,
    InjectCookie,
    InjectHeader,
    Injection,
    InjectQuery,
    OnExisting,
    Secret,
)
from tests.unit.credentials.credential_samples import (
    NEIGHBOUR_KEY,
    OTHER,
    SANDBOX,
    STAND_IN,
    TOKEN,
    applied,
    github_in,
    held,
    refused,
    request,
    values_of,
)

BEARER = InjectHeader("github", "authorization", "Bearer ")


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def sent(head: Head, need: Injection) -> Head:
    return applied(apply_credentials(head, [need], held(), SANDBOX)).head


# S-04: the sandbox brings a credential of its own ---------------------------------------------------


def test_good_twin_a_request_without_credentials_gets_one() -> None:
    """S-04, control."""
    head = sent(request("/user", ("accept", "*/*")), BEARER)
    assert head == sent(request("/user", ("accept", "*/*")), BEARER)
    assert values_of(head.headers, "authorization") == [f"Bearer {TOKEN}"]
    assert values_of(head.headers, "accept") == ["*/*"]


@pytest.mark.parametrize(
    "own",
    [
        [("authorization", "Bearer x")],
        [("authorization", "")],
        [("authorization", "Bearer x"), ("authorization", "Basic eDp5")],
        [("authorization", "Bearer x"), ("accept", "*/*"), ("authorization", f"Bearer {TOKEN}")],
        [("authorization", "Bearer x, Bearer y")],
    ],
)
def test_its_authorization_is_replaced_by_exactly_one(own: list[tuple[str, str]]) -> None:
    """S-04."""
    outcome = applied(apply_credentials(request("/user", *own), [BEARER], held()))
    assert values_of(outcome.head.headers, "authorization") == [f"Bearer {TOKEN}"]
    assert outcome.replaced


@pytest.mark.parametrize("name", ["x_api_key", "x-api_key", "x_api-key", "x~api.key"])
def test_its_value_does_not_survive_under_a_name_that_servers_read_alike(name: str) -> None:
    """S-04, neighbour: CGI and WSGI fold `_` and `-`."""
    head = sent(request("/", (name, "mine")), InjectHeader("github", "x-api-key"))
    assert "mine" not in {line for _, line in head.headers}


@pytest.mark.parametrize(
    "query",
    [
        "key=mine", "%6bey=mine", "key=mine&key=mine", "%6B%65%79", "a=1&key=mine&b=2", "key=mine&%6bey",
        "[key]=mine", "%5Bkey%5D=mine", "[[key]=mine", "key]=mine", "key[0]=mine", "%u006bey=mine",
    ],
)  # fmt: skip
def test_its_query_parameter_does_not_survive_in_any_spelling(query: str) -> None:
    """S-04, neighbour: parameter pollution."""
    target = sent(request(f"/?{query}"), InjectQuery("github", "key")).target
    assert "mine" not in target
    assert target.count("key") == 1
    assert target.endswith(f"key={TOKEN}")


@pytest.mark.parametrize(
    "lines",
    [
        ["sid=mine"],
        ["a=1", "sid=mine"],
        [" sid =mine;a=1;sid=mine"],
        ['a="x;sid=mine"'],
        ["s%69d=mine; [sid]=mine; sid[]=mine"],
    ],
)
def test_its_cookie_does_not_survive_in_any_header(lines: list[str]) -> None:
    """S-04, neighbour."""
    head = sent(request("/", *(("cookie", line) for line in lines)), InjectCookie("github", "sid"))
    (line,) = values_of(head.headers, "cookie")
    assert "mine" not in line
    assert line.endswith(f"sid={TOKEN}")


@pytest.mark.parametrize(
    ("need", "head"),
    [
        (InjectQuery("github", "key"), request("/?a=1;key=mine")),
        (InjectQuery("github", "key"), request("/?a=1#")),
        (InjectQuery("github", "key"), request("*", method="OPTIONS")),
        (InjectCookie("github", "sid"), request("/", ("cookie", "a=1,sid=mine"))),
    ],
)
def test_what_servers_would_read_in_two_ways_is_refused(need: Injection, head: Head) -> None:
    """S-04, neighbour: the value could win over ours on one server, or ours could be cut off."""
    assert refused(apply_credentials(head, [need], held())).code == "request.malformed"


@pytest.mark.parametrize("need", [BEARER, InjectBasic("github", "u")])
def test_on_existing_fail_refuses_instead(need: InjectHeader | InjectBasic) -> None:
    """S-04, where the rule wants it reported."""
    strict: Injection = (
        InjectHeader("github", "authorization", on_existing=OnExisting.FAIL)
        if isinstance(need, InjectHeader)
        else InjectBasic("github", "u", OnExisting.FAIL)
    )
    assert (
        refused(apply_credentials(request("/", ("authorization", "x")), [strict], held())).code
        == "secret.existing"
    )
    applied(apply_credentials(request("/"), [strict], held()))


# S-05: a placeholder goes to a host whose rule does not use it ----------------------------------------


def test_good_twin_a_placeholder_is_swapped_where_the_rule_expects_it() -> None:
    """S-05 and S-06, control."""
    head = request("/user", ("authorization", f"token {STAND_IN}"))
    after = sent(head, github_in("header:authorization"))
    assert values_of(after.headers, "authorization") == [f"token {TOKEN}"]
    assert STAND_IN not in str(after.headers)


PLACES = {
    "path": request(f"/collect/{STAND_IN}"),
    "encoded path": request(f"/collect/%67{STAND_IN[1:]}"),
    "query value": request(f"/?t={STAND_IN}"),
    "query name": request(f"/?{STAND_IN}=1"),
    "encoded query": request(f"/?t={quote(quote(f'&{STAND_IN}', safe=''), safe='')}"),
    "header": request("/", ("authorization", f"Bearer {STAND_IN}")),
    "header name": request("/", (f"x-{STAND_IN.lower()}", "1")),
    "upper case": request("/", ("x", STAND_IN.upper())),
    "cookie": request("/", ("cookie", f"a=1; b={STAND_IN}")),
    "basic user": request("/", ("authorization", basic(f"{STAND_IN}:x-oauth-basic"))),
    "basic password": request("/", ("authorization", basic(f"git:{STAND_IN}"))),
    "proxy basic": request("/", ("proxy-authorization", basic(f"git:{STAND_IN}"))),
    "base64": request(f"/?t={base64.b64encode(STAND_IN.encode()).decode().rstrip('=')}"),
    "url in a header": request("/", ("referer", f"https://a.example/{quote('?t=' + STAND_IN, safe='')}")),
    "host label": request("/", ("host", f"{STAND_IN.lower()}.example.com")),
    "method": request("/", method=STAND_IN),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_placeholder_on_another_host_is_denied_and_never_swapped(place: str) -> None:
    """S-05: the rule of this host needs nothing, or something else."""
    for needs in ([], [InjectQuery("aws", "key")]):
        refusal = refused(apply_credentials(PLACES[place], needs, held(), SANDBOX))
        assert (refusal.code, refusal.secret) == ("placeholder.misplaced", "github")


@pytest.mark.parametrize("place", PLACES)
def test_with_pass_it_goes_out_as_it_is(place: str) -> None:
    """S-05: `misplaced: pass` never swaps."""
    outcome = applied(apply_credentials(PLACES[place], [], held(), SANDBOX, misplaced_pass=True))
    assert outcome.head is PLACES[place]


def test_a_placeholder_of_another_sandbox_is_plain_text() -> None:
    """S-05, neighbour: a stand-in that leaked from next door is worth nothing here."""
    stolen = Placeholders.of(NEIGHBOUR_KEY, [("github", "github")]).value("github", "github")
    head = request("/", ("authorization", f"Bearer {stolen}"))
    assert applied(apply_credentials(head, [github_in("header:authorization")], held(), SANDBOX)).head is head


# S-06: a placeholder outside its slot on the right host -----------------------------------------------


@pytest.mark.parametrize("place", sorted(PLACES.keys() - {"header"}))
def test_a_placeholder_outside_its_slot_is_not_swapped(place: str) -> None:
    """S-06: the rule says `header:authorization`."""
    assert refused(
        apply_credentials(PLACES[place], [github_in("header:authorization")], held(), SANDBOX)
    ).code == ("placeholder.misplaced")


def test_one_in_its_slot_does_not_excuse_another() -> None:
    """S-06: one is swapped, the second would be carried to where responses reflect it."""
    head = request(f"/?t={STAND_IN}", ("authorization", f"Bearer {STAND_IN}"))
    assert refused(
        apply_credentials(head, [github_in("header:authorization", most=9)], held(), SANDBOX)
    ).code == ("placeholder.misplaced")


def test_more_than_max_in_one_slot_are_refused() -> None:
    """S-06, neighbour: `max` keeps a secret from being multiplied."""
    head = request("/", ("authorization", f"Bearer {STAND_IN} {STAND_IN}"))
    assert refused(apply_credentials(head, [github_in("header:authorization")], held(), SANDBOX)).code == (
        "placeholder.misplaced"
    )


def test_a_slot_of_one_secret_takes_no_placeholder_of_another() -> None:
    """S-06, neighbour."""
    head = request("/", ("authorization", f"Bearer {OTHER}"))
    refusal = refused(apply_credentials(head, [github_in("header:authorization")], held(), SANDBOX))
    assert (refusal.code, refusal.secret) == ("placeholder.misplaced", "openai")


@pytest.mark.parametrize("value", ["../../admin", "x/../y", "a?b=c", "a#b", "..%2f", "a\\..\\b"])
def test_a_swapped_secret_cannot_leave_its_path_segment(value: str) -> None:
    """S-06, neighbour: the path that was matched is the path that is sent, around the secret."""
    head = request(f"/bot{STAND_IN}/send?x=1")
    target = applied(apply_credentials(head, [github_in("path")], held(github=value), SANDBOX)).head.target
    segment = target.removeprefix("/bot").removesuffix("/send?x=1")
    assert not set(segment) & set("/?#\\")


# S-35: what a secret's source may hand over -----------------------------------------------------------


def test_good_twin_a_trailing_newline_is_stripped() -> None:
    """S-35, control."""
    secret = secret_from("github", b"tok3n-abc\r\n")
    head = applied(apply_credentials(request("/"), [BEARER], {"github": secret})).head
    assert values_of(head.headers, "authorization") == ["Bearer tok3n-abc"]


@pytest.mark.parametrize(
    "raw",
    [b"a\r\nx-evil: 1", b"a\nb", b"a\rb", b"a\x00b", b"a\x00", b"\x00a", b"a\tb", b"a\x1b[31m", b"", b"\r\n"],
)
def test_a_value_that_would_break_the_head_is_refused_when_it_is_loaded(raw: bytes) -> None:
    """S-35."""
    with pytest.raises(SecretValueError):
        secret_from("github", raw)


@pytest.mark.parametrize(
    "need",
    [BEARER, InjectCookie("github", "sid"), InjectBasic("github", "u")],
    ids=["header", "cookie", "basic"],
)
@pytest.mark.parametrize("value", [b"", b"a\r\nx-evil: 1", b"a\x00b", b"a\n"])
def test_a_value_that_was_never_checked_is_refused_when_it_is_written(need: Injection, value: bytes) -> None:
    """S-35, second line: not every secret need have come through `secret_from`."""
    secrets = {"github": Secret("github", value)}
    assert refused(apply_credentials(request("/"), [need], secrets)).code == "secret.unavailable"


def test_a_value_that_was_never_checked_is_harmless_where_it_is_encoded() -> None:
    """S-35, second line."""
    secrets = {"github": Secret("github", b"a\r\nx: 1&b=#/ \x00")}
    head = applied(apply_credentials(request("/"), [InjectQuery("github", "key")], secrets)).head
    assert head.target == "/?key=a%0D%0Ax%3A%201%26b%3D%23%2F%20%00"


# S-37: a secret that is not there ---------------------------------------------------------------------


@pytest.mark.parametrize("need", [BEARER, InjectQuery("github", "k"), InjectCookie("github", "k")])
def test_a_missing_secret_refuses_the_request(need: Injection) -> None:
    """S-37: also where the sandbox brought a value that could have gone out instead."""
    head = request("/?k=mine", ("authorization", "Bearer mine"), ("cookie", "k=mine"))
    assert refused(apply_credentials(head, [need], {})).code == "secret.unavailable"
    applied(apply_credentials(head, [need], held()))


# S-38: nothing shows a value ---------------------------------------------------------------------------


def test_good_twin_the_value_is_really_there() -> None:
    """S-38, control: what is hidden below is what is sent."""
    head = applied(apply_credentials(request("/"), [BEARER], held(github="hunter2"))).head
    assert head.headers[-1] == ("authorization", "Bearer hunter2")


def carriers() -> list[object]:
    secrets = held(github="hunter2")
    swapped = apply_credentials(request(f"/{STAND_IN}"), [github_in("path")], secrets, SANDBOX)
    written = apply_credentials(request("/"), [InjectQuery("github", "key")], secrets)
    return [secrets, swapped, written, applied(swapped).head, applied(written).head]


@pytest.mark.parametrize("carrier", carriers())
def test_nothing_that_carries_a_value_shows_or_copies_it(carrier: object) -> None:
    """S-38."""
    assert "hunter2" not in f"{carrier} {carrier!r} {carrier!a} {(carrier,)}"
    with pytest.raises(LookupError) as caught:
        raise LookupError(carrier)
    trace = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "hunter2" not in "".join(trace.format())
    with pytest.raises(TypeError, match="must not be pickled or copied"):
        pickle.dumps(carrier)
    with pytest.raises(TypeError, match="must not be pickled or copied"):
        copy.deepcopy(carrier)


@pytest.mark.parametrize(
    "need",
    [
        BEARER,
        InjectCookie("github", "sid"),
        InjectBasic("github", "u"),
        github_in("header:x"),
        github_in("path"),
    ],
)
def test_no_refusal_shows_a_value_or_what_the_sandbox_sent(need: Injection) -> None:
    """S-38."""
    secrets = {"github": Secret("github", b"hunter2\n..")}
    head = request(f"/{STAND_IN}", ("x", STAND_IN), ("authorization", "mine"), ("cookie", "sid=mine"))
    shown = repr(refused(apply_credentials(head, [need], secrets, SANDBOX)))
    for text in ("hunter2", STAND_IN, "mine"):
        assert text not in shown
