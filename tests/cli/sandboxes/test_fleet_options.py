"""What is typed for a proxy reaches the proxy, on each command that starts one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import pytest

from egress.cli.sandboxes import fleet_options
from egress.cli.sandboxes.fleet_options import FleetOptions
from egress.cli.sandboxes.stacks.trial_upstream import HOST, TrialUpstream
from egress.proxy.clock import SystemClock
from tests.cli.command import egress, put
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["namespaces", "refusal"]

TYPED = [
    *("--rules=a.yaml", "--rules=b.yaml", "--runtime=docker", "--state-dir=state", "--audit-dir=audit"),
    *("--seccomp=profile.json", "--upstream-ca=one:two.pem", "--upstream-ca=three.pem"),
    *("--resolve=a.example.com=192.0.2.1", "--resolve=b.example.com=192.0.2.2"),
]
RULES = """\
version: 1
hosts:
  {host}: {{ports: [{port}], addresses: [127.0.0.1/32], allow: all}}
"""


def read(*words: str) -> FleetOptions:
    found: list[FleetOptions] = []

    @fleet_options.add_options
    def command(source: FleetOptions) -> int:
        found.append(source)
        return 0

    click.command()(command).main(args=list(words), standalone_mode=False)
    return found[0]


def test_they_are_passed_on_word_for_word() -> None:
    """`egress up` starts another process with them."""
    found = read(*TYPED, "--runtime-dir=run")
    assert found.runtime_dir == Path("run")
    assert list(found.words) == TYPED
    assert found.proxy_options == tuple(TYPED[-4:])
    assert read(*found.words, "--runtime-dir=run") == found


@pytest.mark.parametrize(
    ("words", "are_own"),
    [
        ((), False),
        (("--runtime", "docker"), False),
        (("--state-dir", "x"), False),
        (("--runtime-dir", "x"), False),
        *(((word,), True) for word in TYPED if not word.startswith(("--runtime", "--state-dir"))),
    ],
    ids=str,
)
def test_what_only_a_proxy_of_its_own_can_have_is_told_from_the_rest(
    words: tuple[str, ...], are_own: bool
) -> None:
    assert read(*words).are_own is are_own


@pytest.mark.system("curl", "curl")
@pytest.mark.usefixtures("namespaces")
def test_a_run_takes_the_options_of_a_proxy(tmp_path: Path) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="egress-") as name,
        TrialUpstream(tmp_path, SystemClock().now()) as upstream,
    ):
        place = Path(name)
        rules = put(place / "hosts.yaml", RULES.format(host=HOST, port=upstream.port))
        asked = ("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", f"https://{HOST}:{upstream.port}/x")
        words = ("run", "--runtime", "namespace", "--rules", str(rules), "--state-dir", str(place / "state"))
        more = ("--upstream-ca", str(upstream.trusted), "--resolve", f"{HOST}=127.0.0.1")
        # The good twin comes second: without the options the same request is refused.
        refused = egress(*words, "--", *asked, cwd=place)
        done = egress(*words, *more, "--audit-dir", str(place / "log"), "--", *asked, cwd=place)
        assert refused.out != "200"
        assert (done.status, done.out) == (0, "200")
        assert (place / "log/audit-000001.jsonl").is_file()
        assert (place / "state/audit.key").is_file()
        assert not (place / ".local").exists()
