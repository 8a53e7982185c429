"""Which pictures there are: the page of each, the size of its window, light or dark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Log = Literal["demo", "sample"]


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture in docs/pictures."""

    name: str
    log: Log
    path: str
    """The page. `{id}` is the id of the line that `of` finds."""
    width: int
    height: int
    of: str = ""
    """A list on which the newest line is meant."""
    is_dark: bool = False
    is_after: bool = False
    """After the rules were changed as the page of the request says."""


FULL = "/?sandbox=agent-1&secret=git&rule=git.example.com%23read"
DENIED = "/?verdict=deny&rule=&grep=/changes/7"
CUT = "/?verdict=cut"
SHOTS = (
    Shot("review-list", "demo", "/", 1100, 540),
    Shot("review-request", "demo", "/request?id={id}", 1100, 650, "/?grep=/v1/projects"),
    Shot("review-suggest", "demo", "/suggest?id={id}", 1100, 400, "/?grep=/v1/projects"),
    Shot("review-replay", "demo", "/replay", 1100, 330, is_after=True),
    Shot("ui-list", "sample", "/?verdict=deny", 1280, 760),
    Shot("ui-request", "sample", "/request?id={id}", 1280, 820, FULL, is_dark=True),
    Shot("ui-suggest", "sample", "/suggest?id={id}", 1280, 480, DENIED),
    Shot("ui-sandbox", "sample", "/sandbox?name=agent-2", 1280, 900),
    Shot("ui-charts", "sample", "/charts", 1280, 760, is_dark=True),
    Shot("ui-rules", "sample", "/rules", 1280, 640),
    Shot("ui-draft", "sample", "/draft", 1280, 760),
    Shot("ui-narrow", "sample", "/", 390, 760),
)
EVERY = (
    "/",
    "/?verdict=deny&grep=changes",
    CUT,
    "/request?id={cut}",
    "/request?id={id}",
    "/request?id={denied}",
    "/suggest?id={denied}",
    "/charts",
    "/charts?grep=changes",
    "/rules",
    "/rule?name=pinned.example.com%23host",
    "/rule?name=canaries%23cloud-key",
    "/sandbox?name=agent-2",
    "/host?name=git.example.com",
    "/secret?name=git",
    "/draft",
    "/replay",
    "/chain",
    "/nothing",
)
"""Every kind of page, to be looked at with one's own eyes."""
