"""The address of a collector: read strictly, from a URL or from the standard variables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.errors import UsageError
from egress.telemetry.otlp_endpoint import CollectorEndpoint, endpoint_of_variables, read_endpoint

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://127.0.0.1:4318", CollectorEndpoint(False, "127.0.0.1", 4318)),
        ("http://collector", CollectorEndpoint(False, "collector", 80)),
        ("https://Collector.example.com/", CollectorEndpoint(True, "collector.example.com", 443)),
        ("https://[2001:db8::1]:4318/otlp/", CollectorEndpoint(True, "2001:db8::1", 4318, "/otlp")),
    ],
)
def test_a_url_is_read_and_written(url: str, found: CollectorEndpoint) -> None:
    assert read_endpoint(url) == found
    assert read_endpoint(str(found)) == found


@pytest.mark.parametrize(
    "url",
    [
        "",
        "collector:4318",
        "grpc://collector:4317",
        "http://",
        "http://:4318",
        "http://user:word@collector",
        "http://user@collector",
        "http://collector?x=y",
        "http://collector?",
        "http://collector#x",
        "http://collector:0",
        "http://collector:99999",
        "http://collector:",
        "http://collector:4318:4318",
        "http://collector/a b",
        "http://collector/../x%2f",
        "http://collector//x",
        "http://collector\r\nx: y",
        "http://col\tlector",
        "http://[::1%25eth0]:1",
        "http://c\N{CYRILLIC SMALL LETTER O}llector",
    ],
)
def test_anything_else_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ValueError, match="URL") as refused:
        read_endpoint(url)
    assert "word" not in str(refused.value)


@given(st.text(max_size=60).map("http://{}".format))
def test_what_is_read_is_read_the_same_from_its_text(url: str) -> None:
    try:
        found = read_endpoint(url)
    except ValueError:
        return
    assert read_endpoint(str(found)) == found


@pytest.mark.parametrize(
    ("url", "is_private"),
    [
        ("https://collector", True),
        ("http://127.0.0.9", True),
        ("http://[::1]", True),
        ("http://localhost", True),
        ("http://collector", False),
        ("http://192.0.2.1", False),
    ],
)
def test_only_tls_and_this_machine_are_private(url: str, is_private: bool) -> None:
    assert read_endpoint(url).is_private_channel is is_private


def test_the_standard_variables_are_read() -> None:
    environ = {
        ENDPOINT: "http://127.0.0.1:4318",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "",
        "OTEL_SERVICE_NAME": "other",
    }
    assert endpoint_of_variables(environ).port == 4318


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"OTEL_EXPORTER_OTLP_HEADERS": "authorization=word"}, "--otlp-headers-file"),
        ({"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "authorization=word"}, "--otlp-headers-file"),
        ({"OTEL_EXPORTER_OTLP_CERTIFICATE": "/ca"}, "--otlp-ca"),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://other"}, "leave it out"),
        ({"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}, "leave it out"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf"),
        ({ENDPOINT: ""}, "https://collector"),
        ({ENDPOINT: "http://user:word@x"}, "https://collector"),
    ],
)
def test_a_variable_that_would_have_no_effect_is_refused(more: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        endpoint_of_variables({ENDPOINT: "http://127.0.0.1:4318", **more})
    assert says in str(refused.value.hint)
    assert "word" not in f"{refused.value} {refused.value.hint}"
