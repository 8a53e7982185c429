"""Makes the pictures of the documentation: a demo is played, a day is made up, and Chromium looks at both.

    python -m scripts.pictures                  writes docs/pictures
    python -m scripts.pictures --look FOLDER    every page, light and dark, wide and narrow, to look at

What a page looks like is in its templates and its style: their digest is kept beside the pictures, so that
a test can tell when they are of a page as it was.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scripts import chromium
from scripts.pages import ROOT
from scripts.pictures import sample
from scripts.pictures.shots import CUT, DENIED, EVERY, FULL, SHOTS, Shot

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

PICTURES = ROOT / "docs/pictures"
MADE_OF = PICTURES / "made-of"
START_TIMEOUT = 60.0
_LINK = re.compile(r"http://\S+/login\?token=\S+")


def digest() -> str:
    """Changes with the templates, the style and the list of pictures."""
    there = [*(ROOT / "egress/ui/templates").iterdir(), *(ROOT / "egress/ui/static").iterdir()]
    there += (ROOT / "scripts/pictures").glob("*.py")
    found = hashlib.sha256()
    for file in sorted(there):
        found.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


@contextmanager
def page(log: Path, key: Path, rules: Path) -> Iterator[str]:
    """The review page of a log, as `egress ui` serves it; gives the link."""
    words = ["--dir", log, "--key", key, "--rules", rules.name, "--listen", "127.0.0.1:0"]
    command = [sys.executable, "-m", "egress", "ui", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=rules.parent) as process:
        try:
            found = _LINK.search(process.stdout.readline() if process.stdout else "")
            if found is None:
                raise SystemExit("pictures: `egress ui` gave no link")
            yield found[0]
        finally:
            process.terminate()


def root(link: str) -> str:
    return link.partition("/login")[0]


class Photographer:
    """A browser that opens a page, waits until it is whole, and keeps what it sees."""

    def __init__(self, browser: Chrome, link: str) -> None:
        self._browser, self._root = browser, root(link)
        # A telephone has none, and what is below the edge is no part of a picture.
        browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        browser.get(link)

    def id_on(self, path: str) -> str:
        """The id of the newest line of a list."""
        self._browser.get(self._root + path)
        found = re.search(r'href="/request\?id=([\w-]+)"', html.unescape(self._browser.page_source))
        if found is None:
            raise SystemExit(f"pictures: no line on {path}")
        return found[1]

    def see(self, path: str, width: int, height: int, *, is_dark: bool) -> str:
        """Open a page."""
        chromium.size(self._browser, width, height)
        chromium.prefer(self._browser, "dark" if is_dark else "light")
        self._browser.get(self._root + path)
        self._until("return document.querySelector('#chain.sound') !== null")
        # The small chart comes after the list.
        self._until(
            "const it = document.querySelector('#strip'); return !it || it.querySelector('svg') !== null"
        )
        return path

    def keep(self, file: Path, *, is_whole: bool = False) -> None:
        """Write what is seen; the whole page where that is wanted."""
        wish = {"format": "png", "captureBeyondViewport": is_whole}
        if is_whole:
            script = "return [innerWidth, Math.min(document.documentElement.scrollHeight, 3000)]"
            wide, high = self._browser.execute_script(script)
            wish["clip"] = {"x": 0, "y": 0, "width": wide, "height": high, "scale": 1}
        file.write_bytes(
            base64.b64decode(self._browser.execute_cdp_cmd("Page.captureScreenshot", wish)["data"])
        )

    def _until(self, script: str) -> None:
        end = time.monotonic() + START_TIMEOUT
        while not self._browser.execute_script(script):
            if time.monotonic() > end:
                raise SystemExit(f"pictures: {self._browser.current_url} is not whole: {script}")
            time.sleep(0.2)


def played(folder: Path) -> sample.Kept:
    """The log of the demo, played now."""
    environ = {**os.environ, "REVIEW": "no"}
    subprocess.run(
        ["sh", "scripts/demo", str(folder)], check=True, env=environ, cwd=ROOT, stdout=subprocess.DEVNULL
    )
    return sample.Kept(folder / "audit", folder / "audit.key", folder / "hosts.yaml")


def changed(rules: Path) -> None:
    """What the reviewer's guide does with the rules of the demo."""
    text, allow = rules.read_text(), "    allow:\n"
    if text.count(allow) != 1:
        raise SystemExit("pictures: the rules of the demo are others than the guide says")
    new = "      - { id: new, methods: [GET], paths: [/v1/projects] }\n"
    rules.write_text(text.replace(allow, allow + new))


def take(browser: Chrome, kept: sample.Kept, shots: Sequence[Shot]) -> None:
    """Make pictures of one log."""
    with page(kept.log, kept.key, kept.rules) as link:
        camera = Photographer(browser, link)
        for shot in shots:
            if shot.is_after:
                changed(kept.rules)
            name = camera.id_on(shot.of) if shot.of else ""
            camera.see(shot.path.format(id=name), shot.width, shot.height, is_dark=shot.is_dark)
            camera.keep(PICTURES / f"{shot.name}.png")
            print(f"docs/pictures/{shot.name}.png")


def look(browser: Chrome, kept: sample.Kept, folder: Path) -> None:
    """Every page, light and dark, wide and narrow."""
    folder.mkdir(parents=True, exist_ok=True)
    with page(kept.log, kept.key, kept.rules) as link:
        camera = Photographer(browser, link)
        names = {"id": camera.id_on(FULL), "denied": camera.id_on(DENIED), "cut": camera.id_on(CUT)}
        for number, path in enumerate(EVERY):
            for width, is_dark in ((1280, False), (1280, True), (390, False), (390, True)):
                camera.see(path.format(**names), width, 800, is_dark=is_dark)
                words = re.sub(r"\W+", "-", path).strip("-") or "list"
                file = folder / f"{number:02}-{words}-{width}-{'dark' if is_dark else 'light'}.png"
                camera.keep(file, is_whole=True)
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")


def main() -> None:
    """Make them."""
    parser = argparse.ArgumentParser(description="Make the pictures of the documentation anew.")
    parser.add_argument("--look", type=Path, metavar="FOLDER", help="every page, into this folder")
    to_look_at: Path | None = parser.parse_args().look
    with tempfile.TemporaryDirectory(prefix="egress-pictures-") as name:
        folder = Path(name)
        browser = chromium.start(folder / "profile")
        if browser is None:
            raise SystemExit(f"pictures: this needs {chromium.NEEDED}")
        try:
            day = sample.write(folder / "sample", time.time_ns())
            if to_look_at is not None:
                look(browser, day, to_look_at)
                return
            take(browser, day, [shot for shot in SHOTS if shot.log == "sample"])
            take(browser, played(folder / "demo"), [shot for shot in SHOTS if shot.log == "demo"])
        finally:
            browser.quit()
    MADE_OF.write_text(f"{digest()}\n")


if __name__ == "__main__":
    main()
