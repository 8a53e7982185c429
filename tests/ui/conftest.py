"""What tests with a browser share: Chromium, driven by selenium, and a page that is really served.

Where either is missing they are left out with a word; under CI they fail.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import LEFT_OUT, UNDER_CI
from tests.ui.served import Served

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

NEEDED = "a browser (apt install chromium chromium-driver; pip install selenium)"


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome | None]:
    # Of a module, not of the session: it must end in a room where sockets are allowed.
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None or importlib.util.find_spec("selenium") is None:
        yield None
        return
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = binary
    profile = tmp_path_factory.mktemp("chromium")
    for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options=options, service=ChromeService(driver))
    browser.set_page_load_timeout(30)
    yield browser
    browser.quit()


@pytest.fixture
def browser(driven: Chrome | None, request: pytest.FixtureRequest) -> Chrome:
    """A window of the usual size, light, without cookies."""
    if driven is None:
        if UNDER_CI:
            pytest.fail(f"there is no browser: .ci/run installs {NEEDED}", pytrace=False)
        request.node.user_properties.append((LEFT_OUT, NEEDED))
        pytest.skip("needs a browser")
    driven.get("about:blank")
    driven.execute_cdp_cmd("Network.clearBrowserCookies", {})
    size = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driven.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    return driven


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as page:
        yield page
