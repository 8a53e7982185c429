"""Class 25, the confused deputy: a grant is used for more than was granted, or asked for beyond the rules.

The sandbox has a grant for a part of a host that carries a credential. The program that asks for grants is
hostile, too: it may ask for anything, as often as it likes. That a sandbox cannot ask at all is the business
of the control socket, and is tried from inside of sandboxes.
"""

from __future__ import annotations

import pytest

from egress.errors import UsageError
from egress.rules.compile.grants import NotDelegatedError, covering, read_terms
from egress.types import Headers
from tests.unit.rules.grant_samples import BOX, granted
from tests.unit.rules.rule_samples import ask, decision_text, policy

RULES = policy("""
    secrets: {token: {from: "env:TOKEN", hosts: [api.example.com]}}
    hosts:
      api.example.com:
        allow: [{id: read, methods: [GET], paths: [/read/**]}]
        deny: [{id: no-keys, paths: ["/public/keys/**"]}]
        inject: [{bearer: token}]
    delegate:
      - id: x
        to: {sandboxes: [box]}
        ttl: 1h
        hosts: [api.example.com]
        methods: [POST]
        paths: [/public/**]
""")
OVER = granted(RULES, "allow", "api.example.com", methods=["POST"], paths=["/public/**"])
API = "https://api.example.com"


def test_the_grant_works() -> None:
    """The positive control."""
    assert decision_text(OVER, f"POST {API}/public/a") == "allow g-0"
    assert decision_text(OVER, f"GET {API}/read/a") == "allow read, inject token"


@pytest.mark.parametrize(
    "request_line",
    [
        f"POST {API}/private",
        f"POST {API}/Public/a",
        f"POST {API}/public/../private",
        f"POST {API}/public/%2e%2e/private",
        f"POST {API}/public/..;/private",
        f"POST {API}/public%2fa",
        f"POST {API}//public/a",
        f"POST {API}/public/keys",
        f"POST {API}/public/KEYS/1",
        f"POST {API}/public/%6beys",
        f"PUT {API}/public/a",
        f"post {API}/public/a",
        f"GET {API}/public/a",
        f"POST {API}:8443/public/a",
        "POST http://api.example.com/public/a",
        "POST https://API.example.com/public/a",
        "POST https://api.example.com./public/a",
        "POST https://x.api.example.com/public/a",
    ],
)
def test_a_request_beside_the_grant_is_denied(request_line: str) -> None:
    assert not ask(OVER, request_line).allowed


@pytest.mark.parametrize(
    "headers",
    [
        (("x-http-method-override", "DELETE"),),
        (("x_http_method", "GET"),),
        (("x-original-url", "/read/a"),),
    ],
)
def test_a_grant_is_not_bent_by_headers(headers: Headers) -> None:
    assert not ask(OVER, f"POST {API}/public/a", headers=headers).allowed


def test_no_spelling_of_a_granted_request_carries_the_secret() -> None:
    for target in ("/public/a", "/public/a?token=x", "/public/%61", "/public"):
        found = ask(OVER, f"POST {API}{target}")
        assert found.allowed
        assert found.effects.needs == ()


@pytest.mark.parametrize(
    "change",
    [
        {"secret": "token"},
        {"inject": [{"bearer": "token"}]},
        {"hosts": ["api.example.com"]},
        {"addresses": ["169.254.169.254/32"]},
        {"ports": [22]},
        {"http": True},
        {"intercept": "never"},
        {"mode": "observe"},
        {"expires": "2099-01-01"},
        {"delegation": "x"},
        {"id": "read"},
        {"host": "api.example.com}, evil.example: {allow: all"},
        {"host": "*"},
        {"host": "**.com"},
        {"host": "127.0.0.1"},
        {"host": "169.254.169.254"},
        {"host": "[::1]"},
        {"paths": ["/**"]},
        {"paths": ["/public/**", "/**"]},
        {"paths": ["/public/../private"]},
        {"paths": ["/*/a"]},
        {"paths": None},
        {"methods": ["POST", "GET"]},
        {"methods": None},
        {"methods": ["*"]},
        {"methods": ["CONNECT"]},
        {"ttl": 10**9},
        {"ttl": -1},
        {"ttl": 3601},
        {"port": 22},
        {"kind": "profile", "profile": "admin"},
        {"kind": "observe"},
    ],
)
def test_what_a_hostile_program_asks_for_beyond_the_delegation_is_refused(change: dict[str, object]) -> None:
    good = {
        "kind": "allow",
        "host": "api.example.com",
        "methods": ["POST"],
        "paths": ["/public/**"],
        "ttl": 60,
    }
    assert covering(RULES, BOX, read_terms(good)).id == "x"
    with pytest.raises((NotDelegatedError, UsageError)):
        covering(RULES, BOX, read_terms(good | change))
