"""A pod's network is locked by the kernel's own packet filter, in network namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[2]
WORDS: Final = ("unshare", "--net", sys.executable, "-m", "tests.netlock.pod_network")
TO_THE_PROXY: Final = ("HTTPS outside", "HTTP outside", "names outside", "names by TCP outside")
WITHIN: Final = {"its own loopback": "proxy", "its own address": "workload"}
OUTSIDE: Final = (
    "a port outside",
    "a datagram outside",
    "IPv6 outside",
    "HTTPS over IPv6 outside",
    "QUIC outside",
    *TO_THE_PROXY,
)

pytestmark = [pytest.mark.system("unshare", "util-linux"), pytest.mark.system("nft", "nftables")]
type Answers = Mapping[str, Any]


@pytest.fixture(scope="module")
def network() -> Answers:
    if os.geteuid() != 0:
        pytest.skip("only root can make a network of its own with several users in it")
    # As a pod has it: anywhere else the command refuses to lock.
    environ = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(
        WORDS, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found: Answers = json.loads(done.stdout.splitlines()[-1])
    return found


def test_without_the_lock_everybody_reaches_the_outside(network: Answers) -> None:
    for answers in network["before"].values():
        assert {answers[name] for name in OUTSIDE} == {"outside"}


@pytest.mark.parametrize("user", ["workload", "root"])
def test_whoever_is_not_the_proxy_is_led_to_it_or_refused_at_once(user: str, network: Answers) -> None:
    answers = network["after"][user]
    for name in OUTSIDE:
        expected = "proxy" if name in TO_THE_PROXY else "refused"
        assert answers[name].startswith(expected), name


def test_the_proxy_reaches_the_outside(network: Answers) -> None:
    assert {network["after"]["proxy"][name] for name in OUTSIDE} == {"outside"}


def test_everybody_reaches_the_pod_itself(network: Answers) -> None:
    for answers in network["after"].values():
        assert WITHIN.items() <= answers.items()


def test_clients_from_outside_get_their_answers(network: Answers) -> None:
    assert network["from outside before"] == network["from outside after"] == "workload"


def test_a_connection_from_before_the_lock_is_cut(network: Answers) -> None:
    assert network["an early connection"] == "ConnectionResetError"


def test_a_second_lock_replaces_the_first(network: Answers) -> None:
    replaced = network["replaced"]
    assert {replaced["workload"][name] for name in OUTSIDE} == {"outside"}
    assert {replaced["proxy"][name] for name in TO_THE_PROXY} == {"proxy"}
    assert replaced["proxy"]["a port outside"].startswith("refused")


def test_without_the_right_it_ends_with_an_error_and_nothing_is_locked(network: Answers) -> None:
    assert "cannot be set: operation not permitted" in network["without the right"]
    assert network["still open"] == "outside"
    assert network["status"] == 0


def test_a_rule_that_decides_before_the_lock_is_noticed(network: Answers) -> None:
    assert "the lock does not hold" in network["another rule"]
