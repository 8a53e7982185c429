"""How many connections fit into the descriptors that the system gives."""

from __future__ import annotations

import subprocess
import sys

import pytest

from egress.proxy.process.descriptor_limit import RESERVED_DESCRIPTORS, fit_capacity, requested_capacity

ASKED = requested_capacity(8192, 512)


def test_with_enough_descriptors_everything_is_as_it_was_asked_for() -> None:
    assert fit_capacity(ASKED, 1_048_576) == ASKED


@pytest.mark.parametrize("limit", [140, 256, 1024, 4096, 20_000, 65_536])
def test_what_is_left_open_at_most_fits_and_one_sandbox_has_half(limit: int) -> None:
    room = fit_capacity(ASKED, limit)
    # A client connection each, one behind it in the tunnel lane, and those of the other lane.
    assert 2 * room.clients + room.upstreams <= limit - RESERVED_DESCRIPTORS
    assert room.upstreams_of_sandbox <= room.upstreams // 2
    assert min(room.clients, room.clients_of_sandbox, room.upstreams_of_sandbox) >= 1
    if room.clients < ASKED.clients:
        assert room.clients_of_sandbox <= max(room.clients // 2, 1)


RAISES = """
import resource
from egress.proxy.process.descriptor_limit import raise_descriptor_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))
print(raise_descriptor_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_asks_for_all_that_may_be_had() -> None:
    done = subprocess.run([sys.executable, "-c", RAISES], capture_output=True, text=True, check=False)
    assert done.stdout == "300 300 300\n", done.stderr
