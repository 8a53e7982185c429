"""A disk of memory: how it is mounted, and what it costs."""

from __future__ import annotations

import pytest

from egress.runtime import tmpfs
from egress.runtime.spec import MIB, SandboxLimits


def test_its_size_and_the_number_of_its_files_are_bounded() -> None:
    assert tmpfs.options(3) == "size=3m,nr_inodes=768,mode=0755"
    assert tmpfs.options(1, mode=0o1777) == "size=1m,nr_inodes=256,mode=1777"


def test_it_can_be_somebodys() -> None:
    assert tmpfs.options(1, (7, 8)) == "size=1m,nr_inodes=256,mode=0755,uid=7,gid=8"


def test_memory_is_what_was_said_where_nothing_is_bounded() -> None:
    assert tmpfs.memory_limit(SandboxLimits(memory_mib=64)) == 64 * MIB


@pytest.mark.parametrize("mib", [1, 512, 1 << 24])
def test_what_is_written_takes_nothing_of_what_programs_were_promised(mib: int) -> None:
    """Neither its content, nor as many files as there may be: the kernel keeps about 1040 bytes of each."""
    more = tmpfs.memory_limit(SandboxLimits(memory_mib=64, disk_mib=mib)) - 64 * MIB
    assert more >= mib * MIB + mib * tmpfs.FILES_PER_MIB * 1040
    assert more < 1.5 * mib * MIB
