"""The spellings of one secret: every usual encoder's output holds one of them."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from itertools import product

import pytest

from egress.errors import SecretValueError
from egress.scrub.spellings import MIN_SECRET_BYTES, spellings
from egress.types import Secret

PLAIN = b"ghp_Zm9vYmFyMTIzNDU2Nzg5MGFiY2Rl"
ODD = b"p@ss w/rd+\"q'\\<&>=%~#\n\t;!`"


def found(value: bytes, text: bytes | str) -> bool:
    data = text.encode() if isinstance(text, str) else text
    return any(spelling in data for spelling in spellings(Secret("token", value)))


@pytest.mark.parametrize("value", [PLAIN, ODD, "pässwörter😀".encode(), b"\xff\xfe\x80 not text \x00"])
@pytest.mark.parametrize("before", [b"", b"u", b"us", b"user:", b"Bearer "])
@pytest.mark.parametrize("after", [b"", b"!", b"!!", b"\nmore"])
def test_finds_base64_of_any_text_around_the_secret(value: bytes, before: bytes, after: bytes) -> None:
    text = before + value + after
    assert found(value, base64.b64encode(text))
    assert found(value, base64.urlsafe_b64encode(text))
    assert found(value, base64.urlsafe_b64encode(text).rstrip(b"="))


def test_base64_of_the_secret_leaves_at_most_one_character_on_each_side() -> None:
    for before in range(3):
        encoded = base64.b64encode(b"x" * before + PLAIN + b"y" * 7).rstrip(b"=")
        own = [
            at for at in range(len(encoded)) if 6 * at < 8 * (before + len(PLAIN)) and 6 * at + 6 > 8 * before
        ]
        longest = max(len(each) for each in spellings(Secret("token", PLAIN)) if each in encoded)
        assert len(own) - longest <= 2


@pytest.mark.parametrize("value", [PLAIN, ODD, "pässwörter😀".encode()])
@pytest.mark.parametrize("safe", ["", "/", "-._~!'()*", "-._~/?:@!$&'()*+,;=#"])
def test_finds_what_quote_makes(value: bytes, safe: str) -> None:
    assert found(value, urllib.parse.quote(value, safe=safe))
    assert found(value, urllib.parse.quote_plus(value, safe=safe))


VISIBLE = bytes(range(0x20, 0x7F))
KEPT_IN_URLS = ["-._~", "-._~/", "-._~!'()*", "-._*", "-._~/?:@!$&'()*+,;=", "-._~/?:@!$&'()*+,;=#"]
KEPT_IN_URLS += ["-._", "-._!*()", "-._~!$&'()*+,;=:@", "-._~$&+=:@", "-._~$&+,/:;=@"]


@pytest.mark.parametrize("kept", KEPT_IN_URLS)
@pytest.mark.parametrize("space", ["%20", "+"])
@pytest.mark.parametrize("form", ["%{:02x}", "%{:02X}"])
def test_finds_what_each_kind_of_url_encoder_makes_of_every_sign(kept: str, space: str, form: str) -> None:
    text = "".join(
        char if char.isalnum() or char in kept else space if char == " " else form.format(ord(char))
        for char in VISIBLE.decode()
    )
    assert found(VISIBLE, text)


@pytest.mark.parametrize(
    "quotes",
    [
        {},
        {'"': "&quot;"},
        {'"': "&quot;", "'": "&#x27;"},
        {'"': "&quot;", "'": "&#39;"},
        {'"': "&#34;", "'": "&#39;"},
        {'"': "&quot;", "'": "&#x27;", "/": "&#x2F;"},
        {'"': "&quot;", "'": "&apos;"},
        {'"': "&quot;", "'": "&#039;"},
        {'"': "&#34;", "'": "&#39;", "+": "&#43;"},
        {'"': "&quot;", "'": "&#x27;", "+": "&#x2B;"},
        {'"': "&quot;", "'": "&#x27;", "`": "&#x60;", "=": "&#x3D;"},
        {'"': "&quot;", "'": "&#39;", "/": "&#x2F;", "`": "&#x60;", "=": "&#x3D;"},
    ],
)
def test_finds_what_each_kind_of_page_makes_of_every_sign(quotes: dict[str, str]) -> None:
    table = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"} | quotes)
    assert found(VISIBLE, VISIBLE.decode().translate(table))


def test_finds_every_control_character_as_json_writes_it() -> None:
    value = bytes(range(0x20)) + b'"\\\x7f'
    assert found(value, json.dumps(value.decode()))
    for short, char in (("b", "\b"), ("f", "\f"), ("n", "\n"), ("r", "\r"), ("t", "\t")):
        assert found(f"secret{char}value".encode(), f"secret\\{short}value")


@pytest.mark.parametrize("slash", ["\\u002f", "\\u002F", "\\/"])
@pytest.mark.parametrize("value", [b"secret/with/slash", b'secret/"with"/\\quotes'])
def test_finds_a_slash_that_json_escapes_also_inside_another_json_text(value: bytes, slash: str) -> None:
    once = json.dumps(value.decode()).replace("/", slash)
    assert found(value, once)
    for outer in ("/", "\\/"):
        assert found(value, json.dumps({"body": once}).replace("/", outer))
    plain = json.dumps({"body": json.dumps(value.decode())})
    assert found(value, plain)
    assert found(value, plain.replace("/", "\\/"))


@pytest.mark.parametrize("entity", ["&#x2f;", "&#x2F;", "&#47;"])
def test_finds_a_slash_that_a_page_escapes(entity: str) -> None:
    assert found(b"secret/with/slash", f"secret{entity}with{entity}slash")
    quote = entity.replace("47", "39").replace("2f", "27").replace("2F", "27")
    assert found(b"secret/it's", f"secret{entity}it{quote}s")


def test_finds_percent_digits_of_mixed_case() -> None:
    value = b"a+secret/of:four=signs"
    for signs in product(("%2b", "%2B"), ("%2f", "%2F"), ("%3a", "%3A"), ("%3d", "%3D")):
        assert found(value, "a{}secret{}of{}four{}signs".format(*signs)), signs


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_finds_wide_characters_that_nobody_declares(encoding: str) -> None:
    assert found(PLAIN, f"before {PLAIN.decode()} behind".encode(encoding))
    if "16" in encoding:
        text = "pässwörter😀"
        assert found(text.encode(), f"before {text} behind".encode(encoding))


def test_finds_lower_case_percent_digits() -> None:
    value = b"secret/with/slash"
    assert found(value, urllib.parse.quote(value, safe="").replace("%2F", "%2f"))


def test_finds_what_a_browser_makes_of_a_form_field() -> None:
    assert found(b"secret *~ value", "secret+*%7E+value")


def test_finds_every_byte_percent_encoded_in_both_cases() -> None:
    assert found(PLAIN, "".join(f"%{byte:02x}" for byte in PLAIN))
    assert found(PLAIN, "".join(f"%{byte:02X}" for byte in PLAIN))


MIXED = 'Xpä"ss/w\\ö\x01rter\x7f😀'.encode()


@pytest.mark.parametrize("value", [PLAIN, ODD, "pässwörter😀 \x7f".encode(), MIXED, b"X" + ODD])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_finds_what_json_makes(value: bytes, ascii_only: bool) -> None:
    text = json.dumps({"token": value.decode()}, ensure_ascii=ascii_only)
    assert found(value, text)
    assert found(value, text.replace("/", "\\/"))


@pytest.mark.parametrize("caution", ["<>&", "<>&'=", "<>&'+", "<>&'\"", "<>&'=-;`"])
@pytest.mark.parametrize("form", ["\\u{:04x}", "\\u{:04X}"])
@pytest.mark.parametrize("value", [ODD, b"X" + ODD])
def test_finds_what_cautious_json_encoders_make(value: bytes, caution: str, form: str) -> None:
    text = json.dumps(value.decode())
    if caution[-1] in '+`"':
        text = text.replace('\\"', form.format(ord('"')))
    if caution[-1] in "+`":
        text = text.replace("`", form.format(ord("`")))
    for char in caution:
        text = text.replace(char, form.format(ord(char)))
    assert found(value, text)


def test_finds_every_byte_as_a_json_escape_in_both_cases() -> None:
    assert found(PLAIN, "".join(f"\\u{byte:04x}" for byte in PLAIN))
    assert found(PLAIN, "".join(f"\\u{byte:04X}" for byte in PLAIN))


@pytest.mark.parametrize("value", [PLAIN, ODD, "pässwörter😀".encode()])
def test_finds_every_character_as_its_number(value: bytes) -> None:
    for form in ("&#{};", "&#x{:x};", "&#x{:X};"):
        assert found(value, "".join(form.format(ord(char)) for char in value.decode()))


def test_finds_what_stands_in_a_query_in_another_query() -> None:
    url = "/x?a=b&key=" + urllib.parse.quote(ODD, safe="")
    assert found(ODD, "/login?next=" + urllib.parse.quote(url, safe=""))
    assert found(ODD, "/login?next=" + urllib.parse.quote(url))
    for before in ("", "/", "//"):
        assert found(ODD, base64.urlsafe_b64encode((before + url).encode()))


def test_finds_every_byte_as_a_program_writes_it_in_both_cases() -> None:
    assert found(PLAIN, "".join(f"\\x{byte:02x}" for byte in PLAIN))
    assert found(PLAIN, "".join(f"\\x{byte:02X}" for byte in PLAIN))


def test_finds_hexadecimal_in_both_cases() -> None:
    assert found(PLAIN, PLAIN.hex())
    assert found(PLAIN, PLAIN.hex().upper())


@pytest.mark.parametrize("quote", [True, False])
def test_finds_what_a_page_makes(quote: bool) -> None:
    assert found(ODD, html.escape(ODD.decode(), quote=quote))


def test_finds_a_secret_that_lost_its_case() -> None:
    """Header names arrive in lower case, so a secret echoed as one does too."""
    assert found(PLAIN, PLAIN.lower())
    assert found(PLAIN, PLAIN.upper())


def test_finds_base64_inside_json_and_urls() -> None:
    """An echo service returns `Authorization: Basic` inside JSON, some with escaped slashes."""
    value = b"\xff\xef\xbe\xfb\xff\xbf secret"
    for encoded in (base64.b64encode(b"user:" + value).decode(), base64.b64encode(value).decode()):
        assert set("+/") & set(encoded), "the case must have what needs escaping"
        assert found(value, encoded.replace("/", "\\/"))
        assert found(value, encoded.replace("+", "\\u002B"))
        assert found(value, urllib.parse.quote(encoded, safe=""))


def test_a_plain_secret_needs_few_spellings() -> None:
    assert 10 <= len(spellings(Secret("token", PLAIN))) <= 20


def test_no_spelling_is_short_enough_to_be_innocent() -> None:
    shortest = min(map(len, spellings(Secret("token", b"abcdefgh"))))
    assert shortest >= MIN_SECRET_BYTES


@pytest.mark.parametrize("value", [b"", b"1234567"])
def test_refuses_a_short_secret_by_name_only(value: bytes) -> None:
    with pytest.raises(SecretValueError) as caught:
        spellings(Secret("deploy", value))
    assert "deploy" in caught.value.message
    assert "1234567" not in caught.value.message + caught.value.hint
    assert caught.value.hint
