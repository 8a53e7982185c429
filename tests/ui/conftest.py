"""What tests with a browser share: Chromium, driven by selenium, and a page that is really served.

Where either is missing they are left out with a word; under CI they fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts import chromium
from tests.conftest import LEFT_OUT, UNDER_CI
from tests.ui.served_page import ServedPage

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome | None]:
    # Of a module, not of the session: it must end in a room where sockets are allowed.
    browser = chromium.start(tmp_path_factory.mktemp("chromium"))
    yield browser
    if browser is not None:
        browser.quit()


@pytest.fixture
def browser(driven: Chrome | None, request: pytest.FixtureRequest) -> Chrome:
    """A window of the usual size, light, without cookies."""
    if driven is None:
        if UNDER_CI:
            pytest.fail(f"there is no browser: .ci/run installs {chromium.NEEDED}", pytrace=False)
        request.node.user_properties.append((LEFT_OUT, chromium.NEEDED))
        pytest.skip("needs a browser")
    driven.get("about:blank")
    driven.execute_cdp_cmd("Network.clearBrowserCookies", {})
    chromium.size(driven, 1280, 900)
    chromium.prefer(driven, "")
    return driven


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedPage]:
    with ServedPage(tmp_path) as page:
        yield page
