"""The environment must not configure OpenSSL behind the proxy's back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from egress.environment import read_environment
from egress.errors import UsageError
from egress.tls.openssl_environment import MUST_BE_UNSET, check_environment

CONFIGURED = """\
openssl_conf = init
[init]
ssl_conf = ssl
[ssl]
system_default = all
[all]
MaxProtocol = TLSv1.2
"""

SHAKE = """\
from egress.tls.contexts import ClientContexts
from egress.ca import Authority
from tests.addons.handshake import Pair, asking, today, visiting
ours = Authority.create("one", today())
server = ClientContexts().accepting(ours, "api.example.com", (b"http/1.1",), today())
client = asking(visiting(ours.certificate_pem, alpn=(b"http/1.1",)), "api.example.com")
print(Pair(client, server).run().client.get_protocol_version_name())
"""


@pytest.mark.parametrize("name", MUST_BE_UNSET)
def test_refuses_to_run_with_a_variable_that_openssl_follows(name: str) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        check_environment({"LANG": "C", name: "/etc/openssl.cnf"})
    assert name in caught.value.hint


def test_runs_where_they_are_missing_or_empty() -> None:
    check_environment({})
    check_environment(dict.fromkeys(MUST_BE_UNSET, ""))


@pytest.mark.parametrize(("is_set", "version"), [(False, "TLSv1.3"), (True, "TLSv1.2")])
def test_openssl_does_follow_it(is_set: bool, version: str, tmp_path: Path) -> None:
    """Why it is refused: the library behind our contexts reads the file. Once it does not, this can go."""
    file = tmp_path / "openssl.cnf"
    file.write_text(CONFIGURED)
    environ = {**read_environment(), "OPENSSL_CONF": str(file) if is_set else ""}
    done = subprocess.run(
        [sys.executable, "-c", SHAKE],
        env=environ,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == version, done.stderr
