"""What holds for every request head, secret and mix of injections."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from urllib.parse import unquote_to_bytes

from hypothesis import assume, given
from hypothesis import strategies as st

from egress.credentials import AppliedHead, CredentialRefusal, Placeholders, apply_credentials, secret_from
from egress.credentials.placeholder import make_placeholder
from egress.errors import CODES, SecretValueError
from egress.request_name_folding import fold_header, fold_parameter
from egress.types import (
    Head,
    Headers,
    InjectBasic,
    InjectCookie,
    InjectHeader,
    Injection,
    InjectPlaceholder,
    InjectQuery,
    OnExisting,
    Secret,
    Shape,
    Slot,
)
from tests.unit.credentials.credential_samples import KEY, SANDBOX, STAND_IN

# Few names, so that slots are hit often; every spelling that a rule could be after.
NAMES = st.sampled_from(
    [
        "key",
        "k%65y",
        "KEY",
        "sid",
        "x-key",
        "x_key",
        "authorization",
        "cookie",
        "accept",
        STAND_IN.lower(),
        "",
    ]
)
WIRE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="#"), max_size=12)
TEXTS = st.one_of(
    WIRE,
    st.sampled_from(
        ["sid=1; key=2", "a=1", f"sid={STAND_IN}", f"Bearer {STAND_IN}", STAND_IN, "%", "&", ";"]
    ),
    st.binary(max_size=9).map(lambda raw: "Basic " + base64.b64encode(raw).decode()),
)
HEADERS = st.lists(st.tuples(NAMES, TEXTS), max_size=6).map(tuple)
PIECES = st.one_of(WIRE, st.builds("{}={}".format, NAMES, TEXTS))
TARGETS = st.one_of(
    st.builds(
        lambda path, query: f"/{path}" + (f"?{'&'.join(query)}" if query is not None else ""),
        TEXTS,
        st.none() | st.lists(PIECES, max_size=5),
    ),
    st.just("/"),
)
ODD_TARGETS = st.sampled_from(["*", "", "http://a/b", "/a#b", "/?key=1#key=2"])
HEADS = st.builds(
    Head,
    st.sampled_from(["GET", "POST"]),
    st.just("https"),
    st.just("a.example"),
    st.just(443),
    TARGETS,
    HEADERS,
)
SECRETS = st.binary(min_size=1, max_size=24)
VISIBLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=24).map(
    str.encode
)
OCTETS = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='",;\\'), min_size=1, max_size=24
).map(str.encode)
EXISTING = st.sampled_from(OnExisting)
SLOTS = st.builds(Slot, st.sampled_from(["header", "query", "cookie", "path", "basic"]), NAMES)
NEEDS: st.SearchStrategy[Injection] = st.one_of(
    st.builds(InjectHeader, st.just("a"), NAMES, WIRE, WIRE, EXISTING),
    st.builds(InjectBasic, st.just("b"), st.text(max_size=4), EXISTING),
    st.builds(InjectQuery, st.just("c"), st.text(max_size=4) | NAMES, EXISTING),
    st.builds(InjectCookie, st.just("d"), NAMES, EXISTING),
    st.builds(
        InjectPlaceholder,
        st.just("github"),
        st.sampled_from(["github", "aws"]),
        st.lists(SLOTS, max_size=3).map(tuple),
        st.integers(-1, 3),
    ),
)
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8) | TEXTS
ANY_HEADS = st.builds(
    Head,
    ANY_TEXT,
    st.just("https"),
    ANY_TEXT,
    st.integers(),
    ANY_TEXT | TARGETS | ODD_TARGETS,
    st.lists(st.tuples(ANY_TEXT | NAMES, ANY_TEXT), max_size=5).map(tuple),
)
PLAIN_SECRET = "q9-Zj7.Wx~"


def held(value: bytes) -> dict[str, Secret]:
    return {name: Secret(name, value) for name in ("a", "b", "c", "d", "github")}


def sent(outcome: AppliedHead | CredentialRefusal) -> AppliedHead:
    """The outcome; a refused example is not interesting here."""
    assume(isinstance(outcome, AppliedHead))
    assert isinstance(outcome, AppliedHead)
    return outcome


def rest(headers: Headers, *names: str) -> list[tuple[str, str]]:
    return [field for field in headers if field[0].replace("_", "-") not in names]


@given(ANY_HEADS, st.lists(NEEDS, max_size=4), st.none() | SECRETS, st.booleans())
def test_is_total(head: Head, needs: list[Injection], value: bytes | None, misplaced_pass: bool) -> None:
    secrets = {} if value is None else held(value)
    outcome = apply_credentials(head, needs, secrets, SANDBOX, misplaced_pass=misplaced_pass)
    assert isinstance(outcome, AppliedHead) or outcome.code in CODES


@given(HEADS, VISIBLE, EXISTING)
def test_a_header_ends_up_with_one_value_and_the_rest_untouched(
    head: Head, value: bytes, existing: OnExisting
) -> None:
    need = InjectHeader("a", "x-key", "Bearer ", on_existing=existing)
    after = sent(apply_credentials(head, [need], held(value))).head
    assert after.target == head.target
    (line,) = (text for name, text in after.headers if name.replace("_", "-") == "x-key")
    assert line == f"Bearer {value.decode('ascii')}"
    assert rest(after.headers, "x-key") == rest(head.headers, "x-key")


@given(
    HEADS, VISIBLE, st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters=":"))
)
def test_basic_credentials_read_back(head: Head, value: bytes, user: str) -> None:
    after = sent(apply_credentials(head, [InjectBasic("b", user)], held(value))).head
    (line,) = (text for name, text in after.headers if name == "authorization")
    assert base64.b64decode(line.removeprefix("Basic "), validate=True) == user.encode() + b":" + value
    assert after.target == head.target
    assert rest(after.headers, "authorization") == rest(head.headers, "authorization")


def parameters(target: str) -> tuple[str, list[str], list[tuple[bytes, bytes]]]:
    """Path, raw pieces and decoded pairs of a target, read the plain way."""
    path, _, query = target.partition("?")
    pieces = query.split("&") if query else []
    pairs = [piece.replace("+", " ").encode("latin-1").partition(b"=") for piece in pieces]
    return path, pieces, [(unquote_to_bytes(name), unquote_to_bytes(value)) for name, _, value in pairs]


@given(HEADS, SECRETS, st.sampled_from(["key", "a b", "schlüssel", "k&=#"]))
def test_a_query_parameter_ends_up_with_one_value_and_the_rest_untouched(
    head: Head, value: bytes, name: str
) -> None:
    after = sent(apply_credentials(head, [InjectQuery("c", name)], held(value))).head
    path, pieces, pairs = parameters(head.target)
    wire = name.encode()
    ours = fold_parameter(wire.decode("latin-1"))
    others = [
        piece
        for piece, (sent_name, _) in zip(pieces, pairs, strict=True)
        if fold_parameter(sent_name.decode("latin-1")) != ours
    ]
    path_after, pieces_after, pairs_after = parameters(after.target)
    assert (path_after, pieces_after[:-1]) == (path, others)
    assert [found for sent_name, found in pairs_after if sent_name == wire] == [value]
    assert after.headers == head.headers


def cookies(headers: Headers) -> list[str]:
    lines = [text for name, text in headers if name == "cookie"]
    return [piece.strip(" \t") for line in lines for piece in line.split(";") if piece.strip(" \t")]


@given(HEADS, OCTETS)
def test_a_cookie_ends_up_with_one_value_and_the_rest_untouched(head: Head, value: bytes) -> None:
    after = sent(apply_credentials(head, [InjectCookie("d", "sid")], held(value))).head
    others = [each for each in cookies(head.headers) if not re.match(r"sid[ \t]*(=|$)", each, re.IGNORECASE)]
    assert cookies(after.headers) == [*others, f"sid={value.decode('ascii')}"]
    assert sum(name == "cookie" for name, _ in after.headers) == 1
    assert after.target == head.target
    assert rest(after.headers, "cookie") == rest(head.headers, "cookie")


WRITERS: Sequence[Injection] = (
    InjectHeader("a", "x-key", "v "),
    InjectBasic("b", "user"),
    InjectQuery("c", "key"),
    InjectCookie("d", "sid"),
)


@given(HEADS, st.sets(st.sampled_from(WRITERS)), OCTETS)
def test_applying_again_changes_nothing(head: Head, needs: set[Injection], value: bytes) -> None:
    once = sent(apply_credentials(head, list(needs), held(value))).head
    twice = sent(apply_credentials(once, list(needs), held(value))).head
    assert (twice.target, twice.headers) == (once.target, once.headers)


@given(HEADS, st.permutations(WRITERS), OCTETS | SECRETS)
def test_order_changes_nothing(head: Head, needs: list[Injection], value: bytes) -> None:
    one = apply_credentials(head, needs, held(value))
    other = apply_credentials(head, WRITERS, held(value))
    if isinstance(one, CredentialRefusal) or isinstance(other, CredentialRefusal):
        assert one == other
    else:
        assert (one.head.target, one.head.headers) == (other.head.target, other.head.headers)
        assert (one.written, one.replaced) == (other.written, other.replaced)


@given(HEADS, OCTETS)
def test_a_stripped_slot_is_empty_in_every_spelling_and_the_rest_stays(head: Head, value: bytes) -> None:
    strips = [Slot("header", "x-key"), Slot("query", "key"), Slot("cookie", "sid")]
    outcome = apply_credentials(head, [InjectHeader("a", "x-own")], held(value), strips=strips)
    if isinstance(outcome, CredentialRefusal):
        assert outcome.code == "request.malformed"
        return
    after = outcome.head
    assert all(fold_header(name) != "x-key" for name, _ in after.headers)
    names = [piece.partition("=")[0] for piece in after.target.partition("?")[2].split("&")]
    read = [unquote_to_bytes(name.replace("+", " ")).decode("latin-1") for name in names]
    assert all(fold_parameter(name) != "key" for name in read)
    assert all(not re.match(r"sid[ \t]*(=|$)", each, re.IGNORECASE) for each in cookies(after.headers))
    if not outcome.stripped:
        assert after.target == head.target
        assert after.headers[:-1] == tuple(field for field in head.headers if field[0] != "x-own")


@given(HEADS, st.lists(NEEDS, max_size=3), st.booleans())
def test_a_secret_stands_only_where_the_record_says(
    head: Head, needs: list[Injection], misplaced_pass: bool
) -> None:
    """Cut the recorded slots out of the result, and nothing of the secret is left."""
    value = PLAIN_SECRET.encode()
    assume(PLAIN_SECRET not in repr(head))
    outcome = sent(apply_credentials(head, needs, held(value), SANDBOX, misplaced_pass=misplaced_pass))
    kinds = {slot.kind for _, slot in outcome.written}
    names = {slot.name.lower() for _, slot in outcome.written if slot.kind == "header"}
    names |= {"cookie"} if "cookie" in kinds else set()
    names |= {"authorization"} if "basic" in kinds else set()
    path, _, query = outcome.head.target.partition("?")
    left = [text for name, text in outcome.head.headers if name not in names]
    left += [] if "path" in kinds else [path]
    left += [] if "query" in kinds else [query]
    plain = "\n".join(left)
    assert PLAIN_SECRET not in plain
    assert base64.b64encode(value).decode()[2:-4] not in plain


@given(HEADS, st.lists(NEEDS, max_size=3), OCTETS | SECRETS)
def test_nothing_shows_a_secret(head: Head, needs: list[Injection], value: bytes) -> None:
    outcome = apply_credentials(head, needs, held(b"hunter2" + value), SANDBOX)
    assert "hunter2" not in f"{outcome} {outcome!r}"
    # A head without credentials is the sandbox's own, and shows itself like any other.
    if isinstance(outcome, AppliedHead) and outcome.written:
        assert "hunter2" not in f"{outcome.head} {outcome.head!r}"


# Placeholders -------------------------------------------------------------------------------------


def _percent(text: str) -> str:
    return "".join(f"%{ord(character):02X}" for character in text)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


DISGUISES: st.SearchStrategy[Callable[[str], str]] = st.sampled_from(
    [
        str,
        str.upper,
        str.lower,
        _percent,
        lambda t: _percent(_percent(t)),
        _base64,
        lambda t: _base64(f"u:{t}"),
    ]
)


@given(st.data(), HEADS, WIRE, WIRE)
def test_a_placeholder_outside_its_slots_is_refused_whatever_its_disguise(
    data: st.DataObject, head: Head, before: str, after: str
) -> None:
    each = data.draw(st.sampled_from(SANDBOX.all))
    disguised = data.draw(DISGUISES)(each.value)
    text = f"{before}{disguised}{after}"
    place = data.draw(st.integers(0, 3))
    target = head.target + text if place == 0 else head.target
    extra = {0: (), 1: (("x", text),), 2: (("cookie", text),), 3: ((text.lower(), ""),)}[place]
    # Lower case destroys base64; a name that arrives so holds no placeholder any more.
    assume(place != 3 or disguised.lower() in {each.value.lower(), _percent(each.value).lower()})
    # Text before may complete a broken escape, which then is no spelling of the placeholder.
    assume("%" not in before + head.target)
    outcome = apply_credentials(
        Head("GET", "https", "a.example", 443, target, head.headers + extra), (), {}, SANDBOX
    )
    assert isinstance(outcome, CredentialRefusal)
    assert outcome.code == "placeholder.misplaced"


SWAP_SLOTS = (
    Slot("header", "x-key"),
    Slot("query", "key"),
    Slot("cookie", "sid"),
    Slot("path"),
    Slot("basic"),
)
SAFE = st.text("abcXYZ019-._~", max_size=6)


def _request(slot: Slot, text: str, padding: str) -> Head:
    """A request with the text in the slot, whose other parts hold only the padding."""
    path, query = f"/x{padding}", f"other={padding}"
    headers = [("accept", padding), ("cookie", f"a={padding}")]
    if slot.kind == "path":
        path += f"/{text}/y"
    elif slot.kind == "query":
        query += f"&key={text}"
    elif slot.kind == "cookie":
        headers[1] = ("cookie", f"a={padding}; sid={text}")
    elif slot.kind == "header":
        headers.append(("x-key", text))
    else:
        headers.append(("authorization", f"Basic {_base64(text)}"))
    return Head("GET", "https", "a.example", 443, f"{path}?{query}", tuple(headers))


@given(st.sampled_from(SWAP_SLOTS), SAFE, SAFE, SAFE)
def test_a_placeholder_in_its_slot_becomes_the_secret_and_nothing_else_changes(
    slot: Slot, before: str, after: str, padding: str
) -> None:
    user = "u:" if slot.kind == "basic" else ""
    need = InjectPlaceholder("github", "github", (slot,))
    head = _request(slot, f"{user}{before}{STAND_IN}{after}", padding)
    outcome = apply_credentials(head, [need], held(PLAIN_SECRET.encode()), SANDBOX)
    wanted = _request(slot, f"{user}{before}{PLAIN_SECRET}{after}", padding)
    assert isinstance(outcome, AppliedHead)
    assert (outcome.head.target, outcome.head.headers) == (wanted.target, wanted.headers)
    assert outcome.written == (("github", slot),)


@given(st.sampled_from(SWAP_SLOTS), st.sampled_from(SWAP_SLOTS))
def test_a_placeholder_is_swapped_exactly_where_it_is_at_home(home: Slot, found: Slot) -> None:
    need = InjectPlaceholder("github", "github", (home,))
    head = _request(found, f"u:{STAND_IN}" if found.kind == "basic" else STAND_IN, "")
    outcome = apply_credentials(head, [need], held(b"tok3n"), SANDBOX)
    assert isinstance(outcome, AppliedHead) is (home == found)


@given(SECRETS)
def test_a_swapped_path_keeps_its_segments(value: bytes) -> None:
    need = InjectPlaceholder("github", "github", (Slot("path"),))
    head = Head("GET", "https", "a.example", 443, f"/a/{STAND_IN}/b?c=1")
    outcome = apply_credentials(head, [need], held(value), SANDBOX)
    if value in {b".", b".."}:
        assert isinstance(outcome, CredentialRefusal)
        return
    path, _, query = sent(outcome).head.target.partition("?")
    first, second, secret, last = path.split("/")
    assert (first, second, unquote_to_bytes(secret), last, query) == ("", "a", value, "b", "c=1")
    assert re.fullmatch(r"[A-Za-z0-9._~%-]+", secret)


@given(
    st.sampled_from(["github", "openai", "anthropic", "aws", "uuid", "hex32"]),
    st.binary(min_size=32, max_size=64),
    st.binary(min_size=32, max_size=64),
    st.text(max_size=9),
    st.text(max_size=9),
)
def test_stand_ins_are_equal_only_for_equal_sandbox_and_name(
    like: Shape, key: bytes, other_key: bytes, name: str, other: str
) -> None:
    # HMAC pads short keys with zeros, so keys are compared as it sees them.
    same = (key.ljust(64, b"\0"), name) == (other_key.ljust(64, b"\0"), other)
    assert (make_placeholder(like, key, name) == make_placeholder(like, other_key, other)) is same


@given(HEADS)
def test_a_neighbours_placeholder_is_plain_text(head: Head) -> None:
    neighbour = Placeholders.of(KEY[::-1], [("github", "github")])
    need = InjectPlaceholder("github", "github", SWAP_SLOTS, 9)
    outcome = apply_credentials(head, [need], held(b"tok3n"), neighbour)
    assert isinstance(outcome, AppliedHead)
    assert outcome.head is head


# Values -------------------------------------------------------------------------------------------


@given(st.binary(max_size=40) | st.text(max_size=20).map(str.encode))
def test_a_secret_is_the_stripped_value_or_refused(raw: bytes) -> None:
    stripped = raw.strip(b" \t\r\n\x0b\x0c")
    is_marked = stripped.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"))
    is_fit = bool(stripped) and not is_marked and all(byte >= 0x20 and byte != 0x7F for byte in stripped)
    try:
        secret = secret_from("name", raw)
    except SecretValueError:
        assert not is_fit
    else:
        assert is_fit
        assert secret.reveal() == stripped
