"""What the clients of the table need on this machine, taken from the files of tests that declare them.

The marks at the top of such a file, and the packages that its fixtures wait for, hold for these tests as
well.
"""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.proxy.clients import (
    cache,
    compiled_programs,
    test_apt,
    test_cargo,
    test_command_line,
    test_git,
    test_go,
    test_grpc,
    test_java,
    test_javascript,
    test_maven,
    test_node,
    test_npm,
    test_perl,
    test_php,
    test_pnpm,
    test_python,
    test_python_packages,
    test_ruby,
    test_signatures,
)
from tests.proxy.clients.cache import UNDER_CI, Fetched
from tests.proxy.clients.client import Client
from tests.tiers import ALSO

FETCHED: dict[ModuleType, tuple[Fetched, ...]] = {
    test_apt: (),
    test_cargo: (),
    test_command_line: (),
    test_git: (),
    test_go: (compiled_programs.GO,),
    test_grpc: (),
    test_java: (compiled_programs.JAVA,),
    test_javascript: (cache.NODE, cache.NEWER_NODE),
    test_maven: (),
    test_node: (),
    test_npm: (),
    test_perl: (),
    test_php: (),
    test_pnpm: (cache.PNPM,),
    test_python: (cache.PYTHON,),
    test_python_packages: (cache.PYTHON,),
    test_ruby: (),
    test_signatures: (cache.PYTHON,),
}
"""The files, and what must have been fetched or compiled for the clients in them."""


def clients(module: ModuleType) -> list[Client]:
    """Those that a file declares."""
    return [found for found in vars(module).values() if isinstance(found, Client)]


def home(client: Client) -> ModuleType:
    """The file that declares a client."""
    return next(module for module in FETCHED if client in clients(module))


def marks(client: Client) -> list[pytest.MarkDecorator]:
    """The programs of the system without which it is left out."""
    found = getattr(home(client), "pytestmark", [])
    return found if isinstance(found, list) else [found]


def running(*some: Client, once_more: bool = False) -> pytest.MarkDecorator:
    """Give a test the argument `client`, once for each of these, where its programs are.

    Where all of them are tried elsewhere, and here `once_more` in another way, the gate has a third of them.
    """
    cases = [
        pytest.param(
            client, marks=[*marks(client), *([ALSO] if once_more and place % 3 else ())], id=client.name
        )
        for place, client in enumerate(some)
    ]
    return pytest.mark.parametrize("client", cases)


def require(client: Client, request: pytest.FixtureRequest) -> None:
    """Have what is fetched for a client, or leave the test out with a word."""
    for fetched in FETCHED[home(client)]:
        fetched.require(request)
    if client is test_php.CURL and not test_php.has_extension():
        if UNDER_CI:
            pytest.fail(f"{test_php.EXTENSION} is missing", pytrace=False)
        request.node.user_properties.append(("left-out", test_php.EXTENSION))
        pytest.skip(f"needs {test_php.EXTENSION}")
