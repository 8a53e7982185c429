"""`egress mcp`: a sandbox as tools for a client of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Final, Unpack

import click

from egress import environment
from egress.cli import folder_options
from egress.cli.sandboxes import api_options, fleet_options, fleet_session, sandbox_command, sandbox_options
from egress.cli.sandboxes.api_options import ApiOptions
from egress.cli.sandboxes.fleet_options import FleetOptions
from egress.cli.sandboxes.sandbox_options import SandboxOptions
from egress.fleet import SandboxFleet, SandboxLifetime
from egress.runtime.spec import check_name

if TYPE_CHECKING:
    from egress.api_server.tcp_server import ApiPort, ApiPortSettings

_TOKEN_FILE: Final = "mcp.token"
_STDIN: Final = 0


@click.command()
@fleet_options.add_options
@sandbox_options.add_options
@api_options.add_port_options(
    "Serve over HTTP there, for programs that show the token. [the standard streams]", _TOKEN_FILE
)
@click.option("--keep", is_flag=True, help="Leave the sandbox when the server ends; needs `egress up`.")
@click.argument("sandbox", required=False)
def mcp(
    source: FleetOptions,
    api: ApiOptions,
    keep: bool,
    sandbox: str | None,
    **given: Unpack[SandboxOptions],
) -> int:
    """Serve a sandbox to an agent as tools, over the Model Context Protocol.

    An MCP client starts this command and talks to it over its standard streams, or over HTTP with
    --api-listen. Without SANDBOX, creates a sandbox that is removed when the client leaves. With --keep and
    --name, the next start finds it again.

    \b
    Examples:
      egress mcp --mount .:/workspace:rw
      egress mcp builder --api-listen 127.0.0.1:8701
    """
    state = environment.state_dir(folder_options.with_state_dir(source.state_dir))
    settings = api.settings(state, _TOKEN_FILE)
    with ExitStack() as parts:
        # Before the sandbox: an address that is taken is told before anything starts.
        port = None if settings is None else parts.enter_context(closing(api_options.open_port(settings)))
        if sandbox is not None:
            sandbox_options.refuse_for_existing("api_listen", "api_token_file", "api_name", *_TLS_OPTIONS)
            fleet, name = parts.enter_context(_existing(source, sandbox))
        else:
            fleet, name = parts.enter_context(_new(source, given, keep=keep))
        if port is None or settings is None:
            _serve_streams(fleet, name)
        else:
            _serve_port(fleet, name, port, settings)
    return 0


_TLS_OPTIONS: Final = ("api_tls_cert", "api_tls_key")


@contextmanager
def _existing(source: FleetOptions, sandbox: str) -> Iterator[tuple[SandboxFleet, str]]:
    check_name(sandbox)
    with fleet_session.connect_served(fleet_session.served_folder(source)) as there:
        there.info(sandbox)
        yield there, sandbox


@contextmanager
def _new(source: FleetOptions, given: SandboxOptions, *, keep: bool) -> Iterator[tuple[SandboxFleet, str]]:
    request = sandbox_command.read_request(given)
    with fleet_session.fleet(
        source, spec=request.spec, image=request.image, agent=request.agent, keep=keep
    ) as fleet:
        if not fleet_session.is_shared(fleet):
            fleet_session.introduce(fleet.about)
        # Clients start this command with different environments, and a kept sandbox is found by its settings.
        spec = sandbox_command.spec_of(fleet, request, has_our_variables=False)
        with sandbox_command.created(fleet, spec, SandboxLifetime(timeout=request.seconds), keep=keep):
            yield fleet, spec.name


def _serve_streams(fleet: SandboxFleet, name: str) -> None:
    # Imported here: the proxy loads at the same time.
    from egress.mcp.peer import McpPeer, ToolBox
    from egress.mcp.stdio import serve_stdio, take_output

    output = take_output()
    asyncio.run(serve_stdio(McpPeer(ToolBox(fleet, name)), _STDIN, output))


def _serve_port(fleet: SandboxFleet, name: str, port: ApiPort, settings: ApiPortSettings) -> None:
    from egress.mcp.http import PATH, make_mcp_app
    from egress.mcp.peer import ToolBox

    port.serve_app(make_mcp_app(ToolBox(fleet, name)))
    fleet_session.say(f"{name} is served at {settings.url}{PATH}, with the token in {settings.token_file}")
    # Until a signal ends the command.
    threading.Event().wait()
