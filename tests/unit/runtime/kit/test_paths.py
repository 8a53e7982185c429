"""The folder of the kit is named in variables and files, so its path is plain, and so is all in it."""

from __future__ import annotations

import pytest

from egress.errors import UsageError
from egress.runtime.kit.paths import KitPaths

NAMES = (
    "certificate",
    "bundle",
    "hashed",
    "trust_store",
    "wgetrc",
    "apt",
    "php",
    "maven",
    "chromium",
    "firefox",
)


@pytest.mark.parametrize("path", ["/etc/egress", "/run/egress-1.0/kit_a", "/x", "/home/you/.local/kit"])
def test_everything_lies_in_it(path: str) -> None:
    places = [getattr(KitPaths(path), name) for name in NAMES]
    assert all(place.startswith(f"{path}/") for place in places)
    assert len(set(places)) == len(NAMES)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "/",
            "etc/egress",
            "./x",
            "/etc/egress/",
            "/etc//egress",
            "/etc/../root",
            "/etc/.",
            "/etc/..",
            "/etc/...egress",
            "/-x",
        ),
        *("/etc/eg ress", "/etc/a:b", "/etc/a;b", '/etc/a"b', "/etc/$x", "/etc/a\nb", "/etc/a\0", "/etc/é"),
        *("/etc/{x}", "/etc/a&b", "/etc/a<b", "/etc/%x", "/etc/a\\b", "/etc/a\n"),
    ],
)
def test_refuses_a_path_that_is_not_plain(path: str) -> None:
    """A space parts the options of a JVM, a colon the folders of PHP; a dot could lead elsewhere."""
    with pytest.raises(UsageError, match="not a plain absolute path"):
        KitPaths(path)
