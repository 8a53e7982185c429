"""The container of a door: a minimal image without rights.

It holds Python, the modules that one program imports, and that program. It has no capability, a read-only
root, and one folder with one socket. A door shares the network of its sandbox, so each sandbox has its own.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from egress.runtime.docker import image_cache, image_tree, labels, superseded_images
from egress.runtime.docker.bridge_network import BridgeNetwork
from egress.runtime.docker.engine import DockerEngine, Json
from egress.runtime.docker.hardening import MIB, bind_mount, hardened_config, network_config
from egress.runtime.door import controller
from egress.runtime.errors import ImageMissingError

REPOSITORY: Final = "egress-door"
PROGRAM_FILE: Final = Path(controller.__file__).with_name("socket_opener.py")
DOOR_USER_ID: Final = 10001
DOOR_FOLDER: Final = "/door"
_MEMORY_BYTES: Final = 64 * MIB
_MAX_PROCESSES: Final = 8
_CPU_LIMIT: Final = 0.5
_IMAGE_LOCK: Final = threading.Lock()


def image(engine: DockerEngine) -> str:
    """The id of the door's image, made if it is missing.

    Another version of the program makes another image.
    """
    seen = image_cache.fingerprint((PROGRAM_FILE, *image_tree.modules()))
    with _IMAGE_LOCK:
        name = image_cache.find_or_make(engine, REPOSITORY, seen, lambda: _make_image(engine))
        # Another installation may remove the name before a door is made.
        return engine.image_id(name)


def _make_image(engine: DockerEngine) -> str:
    tree = image_tree.program_tree(PROGRAM_FILE)
    with image_tree.spool_archive(tree) as (archive, digest):
        name = f"{REPOSITORY}:{digest[:16]}"
        try:
            engine.image_id(name)
        except ImageMissingError:
            engine.import_image(archive, REPOSITORY, digest[:16])
            superseded_images.remove_superseded(engine, REPOSITORY)
    return name


def config(image: str, network: BridgeNetwork, folder: Path, lease: str, *, has_ipv6: bool) -> Json:
    """The container's configuration. Pure."""
    address = network.addresses.door
    # The sandbox can reach the door over the network, so its container is hardened like a sandbox.
    host = hardened_config(_MEMORY_BYTES, _MAX_PROCESSES, _CPU_LIMIT, has_ipv6=has_ipv6)
    sysctls = host["Sysctls"]
    return {
        "Image": image,
        "Hostname": "door",
        "User": f"{DOOR_USER_ID}:{DOOR_USER_ID}",
        "Entrypoint": [
            image_tree.PYTHON_PATH,
            "-I",
            "-S",
            "-B",
            "/program.py",
            f"{DOOR_FOLDER}/{controller.SOCKET_NAME}",
        ],
        "Cmd": [],
        "WorkingDir": "/",
        "Labels": labels.owner_labels(labels.ROLE_DOOR, lease),
        "HostConfig": {
            **host,
            "AutoRemove": True,
            "ReadonlyRootfs": True,
            "NetworkMode": network.id,
            "Mounts": [bind_mount(str(folder), DOOR_FOLDER)],
            # Forwarding is off, in case the door were ever attached to two networks.
            "Sysctls": {
                **(sysctls if isinstance(sysctls, dict) else {}),
                "net.ipv4.ip_unprivileged_port_start": "0",
                "net.ipv4.ip_forward": "0",
            },
        },
        "NetworkingConfig": network_config(network.id, str(address)),
    }
