"""Chromium without a window, driven by selenium: for tests of the review page, and for its pictures."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

NEEDED = "a browser (apt install chromium chromium-driver; pip install selenium)"
type Scheme = Literal["", "light", "dark"]


def start(profile: Path, *flags: str) -> Chrome | None:
    """A browser with its profile in that folder; None where this machine has none. Whoever asks quits it."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None or importlib.util.find_spec("selenium") is None:
        return None
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService  # noqa: PLC0415 - not everybody has it

    options = ChromeOptions()
    options.binary_location = binary
    for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", *flags):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options=options, service=ChromeService(driver))
    browser.set_page_load_timeout(30)
    return browser


def size(browser: Chrome, width: int, height: int) -> None:
    """The inner size of its window; a narrow one is a telephone."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def prefer(browser: Chrome, scheme: Scheme) -> None:
    """What its user is said to like; nothing with an empty word."""
    features = [{"name": "prefers-color-scheme", "value": scheme}] if scheme else []
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
