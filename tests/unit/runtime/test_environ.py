"""What of the caller's environment enters a sandbox: little, and never a secret (S-40)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.errors import UsageError
from egress.runtime.environ import (
    NEUTRAL_VARIABLES,
    Environment,
    RequestedVariable,
    SandboxKind,
    build_environment,
    read_requested,
)
from egress.scrub import Needles
from egress.types import Secret

SECRET = "ghp_o9/q+Zt4&x<vY%1s"
NEEDLES = Needles.of([Secret("github", SECRET.encode())])
NONE = Needles.of([])
KIT = {"HTTPS_PROXY": "http://10.9.8.7:3128", "SSL_CERT_FILE": "/etc/egress/bundle.pem", "GITHUB_TOKEN": "s"}

CALLER = {
    "PATH": "/usr/local/bin:/usr/bin",
    "HOME": "/home/you",
    "USER": "you",
    "LOGNAME": "you",
    "HOSTNAME": "laptop",
    "SHELL": "/bin/zsh",
    "LANG": "C.UTF-8",
    "LC_ALL": "C",
    "LC_CTYPE": "POSIX",
    "TZ": "Europe/Berlin",
    "TERM": "xterm-256color",
    "TMPDIR": "/var/folders/x",
    "TMP": "/tmp/you",
    "TEMP": "/tmp/you",
    "AWS_PROFILE": "production",
    "SSH_AUTH_SOCK": "/run/user/1000/ssh",
    "HTTPS_PROXY": "http://proxy.corp.example:8080",
    "TOKEN": SECRET,
}


def given_to(
    *texts: str,
    kind: SandboxKind = SandboxKind.CONTAINER,
    caller: dict[str, str] = CALLER,
    kit: dict[str, str] = KIT,
    needles: Needles = NEEDLES,
    own: tuple[str, ...] = (),
    sources: tuple[str, ...] = (),
) -> Environment:
    asked = read_requested(texts)
    return build_environment(caller, kit, needles, kind=kind, asked=asked, own=own, sources=sources)


# What enters by itself --------------------------------------------------------------------------


def test_fourteen_names_are_neutral() -> None:
    assert len(NEUTRAL_VARIABLES) == 14
    assert set(NEUTRAL_VARIABLES) == set(CALLER) - {"AWS_PROFILE", "SSH_AUTH_SOCK", "HTTPS_PROXY", "TOKEN"}


def test_a_container_is_told_how_text_and_time_are_shown_and_nothing_of_the_place() -> None:
    """The image's own search path, home and user stand: those of the caller would be wrong there."""
    found = given_to()
    entered = {"LANG": "C.UTF-8", "LC_ALL": "C", "LC_CTYPE": "POSIX", "TZ": "Europe/Berlin"}
    assert found.variables == {**KIT, **entered, "TERM": "xterm-256color"}
    assert not found.notices


def test_a_namespace_runs_the_callers_programs_so_it_is_told_where_they_are() -> None:
    found = given_to(kind=SandboxKind.NAMESPACE).variables
    assert set(found) - set(given_to().variables) == {"PATH", "SHELL"}
    assert found["PATH"] == CALLER["PATH"]


@pytest.mark.parametrize("name", ["HOME", "USER", "LOGNAME", "HOSTNAME", "TMPDIR", "TMP", "TEMP"])
@pytest.mark.parametrize("kind", SandboxKind)
def test_who_the_caller_is_and_where_he_works_enters_nowhere(name: str, kind: SandboxKind) -> None:
    assert name not in given_to(kind=kind).variables


@pytest.mark.parametrize("name", ["LANG", "LC_ALL", "LC_CTYPE"])
def test_a_locale_that_an_image_may_not_have_stays_outside(name: str) -> None:
    """Bash and perl would complain each time they begin; on the caller's own system it is there."""
    caller = {name: "de_DE.UTF-8"}
    assert name not in given_to(caller=caller).variables
    assert given_to(caller=caller, kind=SandboxKind.NAMESPACE).variables[name] == "de_DE.UTF-8"


def test_what_is_not_set_does_not_enter() -> None:
    assert given_to(caller={}).variables == KIT


@pytest.mark.parametrize("value", ["a\0b", "a\udcffb", "x" * 131_072])
def test_a_neutral_value_that_no_program_can_be_given_stays_outside(value: str) -> None:
    assert "TZ" not in given_to(caller={"TZ": value}).variables


def test_a_neutral_value_that_holds_a_secret_stays_outside_and_is_reported() -> None:
    found = given_to(caller={"TZ": f":{SECRET}"})
    assert found.variables == KIT
    (notice,) = found.notices
    assert notice.name == "TZ"
    assert SECRET not in f"{notice.message}{notice.hint}"


# What is asked for ------------------------------------------------------------------------------


def test_a_variable_is_copied_by_its_name() -> None:
    assert given_to("AWS_PROFILE").variables["AWS_PROFILE"] == "production"


def test_a_name_that_is_neutral_can_be_asked_for_where_it_would_not_enter() -> None:
    assert given_to("HOME").variables["HOME"] == "/home/you"


@pytest.mark.parametrize("value", ["", "x", "a=b=c", " two words ", "line\nline", "grüße", "$HOME", '"'])
def test_a_variable_is_set_to_what_stands_behind_the_sign(value: str) -> None:
    found = given_to(f"MODE={value}").variables
    assert found["MODE"] == value


def test_of_two_with_one_name_the_later_one_counts() -> None:
    assert given_to("MODE=1", "MODE=2").variables["MODE"] == "2"


def test_what_is_not_set_cannot_be_copied() -> None:
    """Left out in silence it would be looked for in the sandbox."""
    with pytest.raises(UsageError, match="MISSING is not set in the environment"):
        given_to("MISSING")


@pytest.mark.parametrize(
    "text",
    [
        *("", "=", "=x", "1A=x", "A-B=x", "A B=x", " A=x", "A =x", "Ä=x", "a.b=x", "A\0=x", "A\n=x"),
        *("export A=x", "${A}=x", "A[0]=x", "-e A=x"),
    ],
)
def test_what_does_not_begin_with_a_name_is_refused_by_its_number(text: str) -> None:
    """It is not quoted: it may well be a value whose name was forgotten."""
    with pytest.raises(UsageError, match="--env number 2 does not start with the name") as caught:
        read_requested(["GOOD=1", text])
    assert not text.strip("= ") or text not in caught.value.message


def test_a_name_is_checked_wherever_it_comes_from() -> None:
    with pytest.raises(UsageError, match="invalid name of a variable"):
        build_environment({}, {}, NONE, kind=SandboxKind.CONTAINER, asked=[RequestedVariable("A B", "x")])


@pytest.mark.parametrize(
    ("value", "why"),
    [("a\0b", "holds a NUL"), ("a\udcffb", "is not UTF-8"), ("x" * 131_072, "too large for a variable")],
)
def test_a_value_that_no_program_can_be_given_is_refused(value: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"the value of MODE {why}|the value of MODE is {why}"):
        given_to(f"MODE={value}")


def test_the_largest_value_that_a_program_can_be_given_enters() -> None:
    """The name, a sign and a NUL at the end are counted with it."""
    largest = "x" * (131_072 - len("MODE") - 2)
    assert given_to(f"MODE={largest}").variables["MODE"] == largest
    with pytest.raises(UsageError, match="too large"):
        given_to(f"MODE={largest}x")


# Secrets ----------------------------------------------------------------------------------------


def basic(value: str) -> str:
    return "Basic " + base64.b64encode(f"x-access-token:{value}".encode()).decode()


SPELLINGS: dict[str, Callable[[str], str]] = {
    "itself": str,
    "within more": "https://x-access-token:{}@github.example/".format,
    "as a header": "Authorization: token {}".format,
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 of more": basic,
    "base64, for URLs": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "percent": lambda value: quote(value, safe=""),
    "every byte in percent": lambda value: "".join(f"%{byte:02X}" for byte in value.encode()),
    "hexadecimal": lambda value: value.encode().hex(),
    "upper case": str.upper,
    "JSON": lambda value: json.dumps({"token": value}),
    "base64 in JSON": lambda value: json.dumps({"auth": basic(value)}),
    "a page": lambda value: value.replace("&", "&amp;").replace("<", "&lt;"),
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("by", ["set", "copied"])
def test_a_configured_secret_does_not_enter_in_any_spelling(spelling: Callable[[str], str], by: str) -> None:
    value = spelling(SECRET)
    with pytest.raises(UsageError, match="the value of MODE holds a configured secret") as caught:
        given_to(f"MODE={value}" if by == "set" else "MODE", caller={"MODE": value})
    assert value not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_what_is_no_secret_enters_in_every_spelling(spelling: Callable[[str], str]) -> None:
    """What is refused above is refused for the secret, and not for the way it is written."""
    value = spelling("nothing that is configured")
    assert given_to(f"MODE={value}").variables["MODE"] == value


def test_a_secret_in_the_place_of_a_name_is_not_shown() -> None:
    token = "ghp_AAAABBBBCCCCDDDD"
    needles = Needles.of([Secret("github", token.encode())])
    for text in (token, f"{token}=", f"{token}=x"):
        with pytest.raises(UsageError, match="the name of a variable holds a configured secret") as caught:
            given_to(text, needles=needles)
        assert token not in f"{caught.value} {caught.value.hint}"


def test_a_secret_that_is_divided_by_the_sign_is_found() -> None:
    needles = Needles.of([Secret("odd", b"user=password")])
    with pytest.raises(UsageError, match="holds a configured secret"):
        given_to("user=password", needles=needles)


def test_a_variable_that_a_secret_is_read_from_is_not_copied_even_where_its_value_is_not_known() -> None:
    with pytest.raises(UsageError, match="a configured secret is read from TOKEN"):
        given_to("TOKEN", needles=NONE, sources=("TOKEN",))


def test_such_a_variable_can_be_set_to_a_stand_in() -> None:
    assert given_to("TOKEN=stand-in", sources=("TOKEN",)).variables["TOKEN"] == "stand-in"


# The kit ----------------------------------------------------------------------------------------


def test_the_kit_stands_and_the_caller_is_told() -> None:
    found = given_to("SSL_CERT_FILE=/mine.pem")
    assert found.variables["SSL_CERT_FILE"] == KIT["SSL_CERT_FILE"]
    (notice,) = found.notices
    assert notice.name == "SSL_CERT_FILE"
    assert notice.message == "SSL_CERT_FILE is set by the kit; your value was ignored"


def test_a_copied_variable_does_not_undo_the_kit_either() -> None:
    """The proxy of the caller's own network least of all."""
    found = given_to("HTTPS_PROXY")
    assert found.variables["HTTPS_PROXY"] == KIT["HTTPS_PROXY"]
    assert len(found.notices) == 1


def test_the_callers_own_stands_where_he_says_so_by_name_and_he_is_told() -> None:
    found = given_to("SSL_CERT_FILE=/mine.pem", "HTTPS_PROXY=x", own=("SSL_CERT_FILE",))
    assert found.variables["SSL_CERT_FILE"] == "/mine.pem"
    assert found.variables["HTTPS_PROXY"] == KIT["HTTPS_PROXY"]
    assert [(notice.name, "replaces the value of the kit" in notice.message) for notice in found.notices] == [
        ("SSL_CERT_FILE", True),
        ("HTTPS_PROXY", False),
    ]


def test_his_own_is_refused_where_he_gives_none() -> None:
    with pytest.raises(UsageError, match="no value was given"):
        given_to(own=("SSL_CERT_FILE",))


def test_his_own_may_not_be_a_secret() -> None:
    with pytest.raises(UsageError, match="holds a configured secret"):
        given_to(f"GITHUB_TOKEN={SECRET}", own=("GITHUB_TOKEN",))


def test_what_is_not_of_the_kit_needs_no_word() -> None:
    found = given_to("MODE=1", own=("MODE",))
    assert found.variables["MODE"] == "1"
    assert not found.notices


def test_the_result_stays_as_it_was_made() -> None:
    with pytest.raises(TypeError):
        given_to().variables["A"] = "b"  # type: ignore[index]


# Whatever is asked for --------------------------------------------------------------------------

NAMES = st.sampled_from(["A", "_b", "PATH", "HOME", "SSL_CERT_FILE", "GITHUB_TOKEN", "TZ"])
TEXTS = st.text(max_size=20) | st.just(SECRET) | st.just(basic(SECRET))


@given(
    st.lists(st.tuples(NAMES, TEXTS | st.none())),
    st.dictionaries(NAMES, TEXTS),
    st.sampled_from(SandboxKind),
    st.sets(NAMES),
)
def test_no_secret_enters_and_the_kit_stands_whatever_is_asked_for(
    asked: list[tuple[str, str | None]], caller: dict[str, str], kind: SandboxKind, own: set[str]
) -> None:
    variables, told = tried([RequestedVariable(*each) for each in asked], caller, kind, own)
    whole = "\n".join(f"{name}={value}" for name, value in variables.items())
    assert not NEEDLES.occur_in(f"{told}\n{whole}".encode("utf-8", "surrogateescape"))
    assert {name for name, value in KIT.items() if variables[name] != value} <= own


def tried(
    asked: list[RequestedVariable], caller: dict[str, str], kind: SandboxKind, own: set[str]
) -> tuple[Mapping[str, str], str]:
    """The variables, and what was said; where the proxy refused the request there is nothing but the kit."""
    try:
        found = build_environment(caller, KIT, NEEDLES, kind=kind, asked=asked, own=own)
    except UsageError as error:
        return KIT, f"{error} {error.hint}"
    return found.variables, " ".join(f"{notice.message} {notice.hint}" for notice in found.notices)
