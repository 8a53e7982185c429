"""Requests that are made from the OpenAPI document, to a real `egress up`: whatever is sent, the answer fits.

The gate sends a few to each operation, the night forty times as many.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

import jsonschema
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from egress.api.operations import OPERATIONS
from egress.api_server.call import STATUS_BY_CODE
from tests.api_server.operator_lab import SECRET, OperatorLab, operator_lab
from tests.api_server.schema_values import SchemaValues
from tests.conftest import IS_NIGHTLY
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["namespaces", "refusal"]

EXAMPLES: Final = 200 if IS_NIGHTLY else 5
"""Requests to each operation."""
UNAVAILABLE: Final = {501, 502, 503, 507}
"""Statuses of the server that stand for something that is not there, each with a type that says what."""
STREAMS: Final = {"events", "watch", "exec_stream", "dial", "attach_session", "follow_audit"}
"""Calls that last until the client leaves."""
pytestmark = [pytest.mark.timeout(3600), pytest.mark.usefixtures("namespaces")]


@dataclass(frozen=True)
class DocumentLab:
    """The running process, and the document that it serves."""

    lab: OperatorLab
    document: Mapping[str, Any]
    process: str
    """A process that has ended."""

    @property
    def values(self) -> SchemaValues:
        return SchemaValues(self.document["components"]["schemas"])

    def operation(self, name: str) -> tuple[str, str, Mapping[str, Any]]:
        """Method, path and description of an operation."""
        return next(
            (method.upper(), path, each)
            for path, methods in self.document["paths"].items()
            for method, each in methods.items()
            if each["operationId"] == name
        )

    def check(self, schema: Mapping[str, Any], value: object) -> None:
        whole = {**schema, "components": self.document["components"]}
        jsonschema.validate(value, whole, jsonschema.Draft202012Validator)


@pytest.fixture(scope="module")
def started(refusal: str) -> Iterator[DocumentLab | None]:
    if refusal:
        yield None
        return
    with operator_lab("one") as lab:
        lab.owner.ask("PUT", "sandboxes/one/file?path=notes.txt", b"notes")
        lab.owner.ask("PUT", "sandboxes/one/sessions/mine", {})
        ended = lab.owner.ask("POST", "sandboxes/one/processes", {"argv": ["true"]}).body["id"]
        yield DocumentLab(lab, lab.client.ask("GET", "openapi.json").body, ended)


@pytest.fixture
def served(started: DocumentLab | None) -> DocumentLab:
    assert started is not None
    return started


OFFERED: Final = sorted(
    each.name for each in OPERATIONS.values() if not each.owner_only and each.name not in STREAMS
)


@pytest.mark.parametrize("name", OFFERED)
def test_whatever_is_sent_the_answer_fits_the_document(name: str, served: DocumentLab) -> None:
    method, path, operation = served.operation(name)
    values = served.values

    @settings(
        max_examples=EXAMPLES,
        phases=(Phase.explicit, Phase.generate, Phase.shrink) if IS_NIGHTLY else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(_requests(values, path, operation))
    def ask(request: GeneratedRequest) -> None:
        if name in _SHORTENING:
            served.lab.owner.ask("PUT", f"sandboxes/{_SHORT_LIVED}", {})
        target = request.target.replace(_PROCESS, served.process)
        found = served.lab.client.ask(method, target, request.body)
        text = found.body if isinstance(found.body, bytes) else json.dumps(found.body).encode()
        # The operator's secrets are no part of any answer; those that a sandbox has are stand-ins.
        assert SECRET.encode() not in text
        assert served.lab.token.encode() not in text
        usual = operation["responses"].get(str(found.status))
        if usual is None and found.status != 206:
            assert found.status < 500 or found.status in UNAVAILABLE, (found.status, found.body)
            if method != "HEAD":
                served.check({"$ref": "#/components/schemas/Problem"}, found.body)
                assert STATUS_BY_CODE[found.body["type"]] == found.status
        elif usual is not None and "application/json" in usual.get("content", {}):
            served.check(usual["content"]["application/json"]["schema"], found.body)
        if name in _ENDING:
            served.lab.owner.ask("PUT", "sandboxes/one", {})
            served.lab.owner.ask("POST", "sandboxes/one/resume")
            served.lab.owner.ask("POST", "sandboxes/one/start")

    ask()
    assert served.lab.client.ask("GET", "sandboxes/one").status == 200


@pytest.mark.parametrize("token", [None, "Bearer x", "Basic x", "{token}", "Bearer {token}x"], ids=str)
def test_no_operation_answers_without_the_token(token: str | None, served: DocumentLab) -> None:
    """Each of them, those of streams included. The right token is never asked to wait."""
    for path, methods in served.document["paths"].items():
        for method, operation in methods.items():
            target = path.format_map(dict.fromkeys(_PARTS, "x") | _USUAL_PARTS)
            shown = {} if token is None else {"Authorization": token.format(token=served.lab.token)}
            status, text = _raw(served, method.upper(), target, shown)
            if operation.get("security") == []:
                assert (status, text) == (200, b""), (method, path)
                continue
            assert status in (401, 429), (method, path)
            served.check({"$ref": "#/components/schemas/Problem"}, json.loads(text) if text else _NO_BODY)
    assert served.lab.client.ask("GET", "about").status == 200


_SHORTENING: Final = {"change_sandbox"}
"""Calls that may set a time after which a sandbox ends, whatever is sent next."""
_SHORT_LIVED: Final = "short"
_ENDING: Final = {"delete_sandbox", "stop_sandbox", "sleep_sandbox", "pause_sandbox"}
_PROCESS: Final = "PROCESS"
"""In place of the id of a process."""
_USUAL_PARTS: Final = {"name": "one", "port": "8000", "process": _PROCESS, "session": "mine"}
_PARTS: Final = ("process", "session", "grant", "ticket", "id", "secret", "line")
_NO_BODY: Final = {"type": "", "message": "", "hint": ""}
"""In place of the answer to HEAD."""


def _raw(served: DocumentLab, method: str, target: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    with closing(socket.create_connection(("127.0.0.1", served.lab.client.port), 30)) as sock:
        host = f"Host: 127.0.0.1:{served.lab.client.port}"
        lines = [f"{method} {target} HTTP/1.1", host, "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        sock.sendall("\r\n".join([*lines, "", ""]).encode())
        said = b"".join(iter(lambda: sock.recv(65536), b""))
    return int(said[9:12]), said.partition(b"\r\n\r\n")[2]


# Requests -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GeneratedRequest:
    target: str
    body: object


@st.composite
def _requests(
    draw: st.DrawFn, values: SchemaValues, path: str, operation: Mapping[str, Any]
) -> GeneratedRequest:
    parts: dict[str, str] = {}
    query: list[tuple[str, str]] = []
    for each in operation["parameters"]:
        if each["in"] == "path":
            usual = _USUAL_PARTS.get(each["name"], "x")
            if operation["operationId"] in _SHORTENING and each["name"] == "name":
                usual = _SHORT_LIVED
            text = draw(st.one_of(st.just(usual), st.just(usual), st.text(min_size=1, max_size=8)))
            parts[each["name"]] = quote(text, safe="")
        elif each["required"] or draw(st.booleans()):
            value = draw(values.any(each["schema"]))
            many = value if isinstance(value, list) else [value]
            query += [(each["name"], one if isinstance(one, str) else json.dumps(one)) for one in many]
    target = path.removeprefix("/v1/").format_map(parts)
    encoded = urlencode(query, errors="replace")
    made = draw(_bodies(values, operation))
    return GeneratedRequest(f"{target}?{encoded}" if encoded else target, made)


@st.composite
def _bodies(draw: st.DrawFn, values: SchemaValues, operation: Mapping[str, Any]) -> object:
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" not in content:
        return draw(st.binary(max_size=200)) if content else None
    if draw(st.integers(0, 20)) == 0:
        return draw(st.binary(max_size=40))
    schema = content["application/json"]["schema"]
    made = draw(values.any(schema))
    fields = values.components[schema["$ref"].rpartition("/")[2]].get("properties", {})
    if isinstance(made, dict) and "timeout" in fields:
        # Often a short one, so that nothing is waited for.
        return {**made, "timeout": draw(st.sampled_from([0.05, 0.05, 0.05, 0, -1, "x"]))}
    return made
