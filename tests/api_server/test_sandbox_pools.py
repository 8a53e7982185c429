"""A file of pools is read strictly, and a mistake in it is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.api_server.sandbox_pools import MAX_POOLS_BYTES, SandboxPool, parse_pools, read_pools
from egress.errors import ContentError, UnreadableError

TEXT = """\
version: 1
pools:
  python: {}
  reviewer:
    image: tools:2
    profile: reader
    profiles: [reviewer]
    limits: { memory_mib: 512, cpus: 1.5 }
"""


def test_a_pool_has_what_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "pools.yaml").write_text(TEXT)
    pools = read_pools(tmp_path / "pools.yaml")
    assert pools["python"] == SandboxPool()
    found = pools["reviewer"]
    assert (found.image, found.limits.memory_mib, found.limits.cpus) == ("tools:2", 512, 1.5)
    allowed = [each for each in ("reader", "reviewer", "author", "") if found.allows(each)]
    assert allowed == ["reader", "reviewer"]
    assert not any(pools["python"].allows(each) for each in ("", "default"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the file is empty"),
        ("version: 2\npools: {}\n", "pools.yaml:1:1"),
        ("version: 1\n", "pools.yaml:1:1"),
        ("version: 1\npools: []\n", "pools.yaml:2:"),
        ("version: 1\npools: {}\nmore: 1\n", "pools.yaml:1:1"),
        ("version: 1\npools:\n  python:\n", "pools.yaml:3:"),
        ("version: 1\npools:\n  Python: {}\n", "pools.yaml:3:3: this is not the name of a pool"),
        (
            "version: 1\npools:\n  a: {}\n  b: { images: x }\n",
            "pools.yaml:4:3: Object contains unknown field",
        ),
        ("version: 1\npools:\n  a: { limits: { memory_mib: much } }\n", "pools.yaml:3:3: Expected `int"),
        ("version: 1\npools:\n  a: {}\n  a: {}\n", "pools.yaml:4:3: duplicate key"),
        ("version: 1\npools: &x {}\n", "anchors"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, told: str) -> None:
    with pytest.raises(ContentError) as found:
        parse_pools("pools.yaml", text)
    assert told in found.value.message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, content in ((tmp_path, None), (tmp_path / "none", None), (tmp_path / "bytes", b"\xff")):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(UnreadableError, match=path.name):
            read_pools(path)
    (tmp_path / "large").write_bytes(b"#" * (MAX_POOLS_BYTES + 1))
    with pytest.raises(ContentError, match="bytes"):
        read_pools(tmp_path / "large")
