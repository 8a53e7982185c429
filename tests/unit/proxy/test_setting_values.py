"""The values of settings: each kind is read strictly, and shown as it is written."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from egress.proxy.setting_values import (
    Addresses,
    HostPin,
    Ipv4,
    ListenAddress,
    MaybeListens,
    MetricsListen,
    Networks,
    Overrides,
    Pins,
    Seconds,
    Size,
    is_plain_name,
    setting_error,
)

PIN = "sha256/" + "A" * 43 + "="


@pytest.mark.parametrize(("name", "is_plain"), [("box-1", True), ("Box", False), ("a/b", False), ("", False)])
def test_plain_names_are_told_from_others(name: str, is_plain: bool) -> None:
    assert is_plain_name(name) is is_plain


@pytest.mark.parametrize(
    ("host", "port", "shown"), [("::1", 0, "[::1]:0"), ("127.0.0.1", 80, "127.0.0.1:80")]
)
def test_an_address_to_listen_on_is_shown_as_it_is_written(host: str, port: int, shown: str) -> None:
    address = ListenAddress(host, port)
    assert str(address) == shown
    assert address.is_loopback
    assert TypeAdapter(MaybeListens).validate_python(shown) == (address,)


def test_no_listener_is_a_word_of_its_own() -> None:
    assert TypeAdapter(MaybeListens).validate_python("none") == ()


@pytest.mark.parametrize("value", ["7", "127.0.0.1:7", ListenAddress("127.0.0.1", 7)])
def test_metrics_are_served_on_this_machine_where_a_port_alone_is_named(value: object) -> None:
    assert TypeAdapter(MetricsListen).validate_python(value) == ListenAddress("127.0.0.1", 7)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (MaybeListens, ""),
        (MaybeListens, "::1:80"),
        (MaybeListens, "localhost:80"),
        (MaybeListens, "127.0.0.1:65536"),
        (Addresses, "10.0.0.2:80"),
        (Networks, "10.0.0.1/8"),
        (Overrides, "api.example.com"),
        (Overrides, "a..b=10.0.0.1"),
        (Pins, "api.example.com=sha256/short"),
        (Pins, f"a..b={PIN}"),
        (Ipv4, "::1"),
        (Seconds, "soon"),
        (Size, "much"),
    ],
)
def test_what_has_another_reading_is_refused_with_a_cure(kind: object, text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(text)
    (error,) = caught.value.errors()
    assert error["type"] == "setting"
    assert error["ctx"]["message"]


def test_a_pin_names_a_canonical_host() -> None:
    (pin,) = TypeAdapter(Pins).validate_python(f"API.example.com={PIN}")
    assert pin == HostPin("api.example.com", PIN)
    assert str(pin) == f"api.example.com={PIN}"


@pytest.mark.parametrize(
    ("kind", "text", "value"), [(Seconds, "2m", 120), (Seconds, "7", 7), (Size, "2 KiB", 2048)]
)
def test_times_and_sizes_are_read_with_their_units(kind: object, text: str, value: int) -> None:
    assert TypeAdapter(kind).validate_python(text) == value


def test_braces_in_an_error_are_not_filled_in() -> None:
    assert setting_error("{host}", "{hint}").message() == "{host}"
