"""A proxy that asks for a password, as whoever reaches it from another machine or a container meets it."""

from __future__ import annotations

from dataclasses import replace

from egress.proxy.ingress.listener import Listener, listen, password_digest
from tests.proxy.clients.client import Client
from tests.proxy.clients.scene import unlocked
from tests.proxy.clients.stage import Stage
from tests.proxy.lab.proxy_stack import SANDBOX
from tests.proxy.lab.raw_upstream import RawUpstream

PASSWORD = "open-the-door-please"


async def guarded[U](stage: Stage[U], client: Client, password: str = PASSWORD) -> Client:
    """The client, told of one more listener, which wants the password; it is given this one in the URL."""
    sock = listen("127.0.0.1", 0)
    digest = password_digest(PASSWORD)
    _, port = await stage.scene.stack.door.open(
        Listener("guarded", "proxy", SANDBOX, sock, "password", digest)
    )

    def told(text: str) -> str:
        url = f"http://any:{password}@127.0.0.1:{port}"
        return text.replace("{proxy}", url).replace("{proxy_port}", str(port))

    return replace(
        client,
        variables={name: told(text) for name, text in client.variables.items()},
        files={place: told(text) for place, text in client.files.items()},
    )


async def password(stage: Stage[RawUpstream], client: Client) -> None:
    """A page comes with the password, and none with another one."""
    wrong = await stage.ask(await guarded(stage, client, "another-password"), "get", "/small")
    assert wrong.status != 0
    assert not stage.scene.upstream.links
    ran = await stage.ask(await guarded(stage, client), "get", "/small")
    assert ran.status == 0, ran.err
    unlocked(stage.scene.upstream, "/small")
