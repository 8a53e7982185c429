"""The container that a door runs in: the least of an image, and of everything else.

It holds a Python, the modules that one program imports, and that program. It has no capability, can write
nowhere, and sees one folder with one socket. A door is all that shares a network with a sandbox, so there is
one for each.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from egress.runtime.docker import labels, local_image, remembered
from egress.runtime.docker.engine import Engine, Json
from egress.runtime.docker.hardening import MIB, bound, hardened, in_network
from egress.runtime.docker.networks import Network
from egress.runtime.door import keeper
from egress.runtime.errors import ImageMissingError

REPOSITORY: Final = "egress-door"
PROGRAM: Final = Path(keeper.__file__).with_name("program.py")
USER: Final = 10001
FOLDER: Final = "/door"
_MEMORY: Final = 64 * MIB
_PROCESSES: Final = 8
_CPUS: Final = 0.5
_ONE_AT_A_TIME: Final = threading.Lock()


def image(engine: Engine) -> str:
    """The name of the door's image, which is made where there is none; another program makes another one."""
    seen = remembered.fingerprint((PROGRAM, *local_image.modules()))
    with _ONE_AT_A_TIME:
        return remembered.image(engine, REPOSITORY, seen, lambda: _made(engine))


def _made(engine: Engine) -> str:
    tree = local_image.for_program(PROGRAM)
    with local_image.spooled(tree) as (archive, digest):
        name = f"{REPOSITORY}:{digest[:16]}"
        try:
            engine.image_id(name)
        except ImageMissingError:
            engine.import_image(archive, REPOSITORY, digest[:16])
    return name


def config(image: str, network: Network, folder: Path, lease: str, *, has_ipv6: bool) -> Json:
    """What the engine is asked for. Pure."""
    address = network.addresses.door
    host = hardened(_MEMORY, _PROCESSES, _CPUS, has_ipv6=has_ipv6)
    sysctls = host["Sysctls"]
    return {
        "Image": image,
        "Hostname": "door",
        "User": f"{USER}:{USER}",
        "Entrypoint": [local_image.PYTHON, "-I", "-S", "-B", "/program.py", f"{FOLDER}/{keeper.SOCKET}"],
        "Cmd": [],
        "WorkingDir": "/",
        "Labels": labels.marked(labels.ROLE_DOOR, lease),
        "HostConfig": {
            **host,
            "AutoRemove": True,
            "ReadonlyRootfs": True,
            "NetworkMode": network.id,
            "Mounts": [bound(str(folder), FOLDER)],
            # The last is so that it could not become a way from one network to another, were it ever in two.
            "Sysctls": {
                **(sysctls if isinstance(sysctls, dict) else {}),
                "net.ipv4.ip_unprivileged_port_start": "0",
                "net.ipv4.ip_forward": "0",
            },
        },
        "NetworkingConfig": in_network(network.id, str(address)),
    }
