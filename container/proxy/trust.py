"""Writes what a workload needs to trust the proxy into a folder: certificates and settings, never a key.

    trust.py OUT FOLDER HOST [PORT]

OUT is where the files are put, FOLDER where the workload will find them, HOST and PORT where it finds the
proxy. The authority is that of the state folder, and is made where there is none yet. What the variables of
the workload have to say is written down beside the files, in `variables.env`.
"""

# ruff: noqa: INP001 - a script of a recipe, in no package

from __future__ import annotations

import sys
import time
from pathlib import Path

from egress import environment
from egress.ca import AuthorityStore, public_roots
from egress.errors import EgressError
from egress.policy.state_dir_ownership import make_state_dir
from egress.runtime.kit import Kit, ProxyAddress, make_kit

READABLE = 0o444


def main(out: Path, folder: str, host: str, port: str = "3128") -> None:
    """Write the whole kit. Raises `EgressError`."""
    state = environment.state_dir(environment.read_environment())
    make_state_dir(state)
    authority = AuthorityStore(state / "ca").open("default", int(time.time()))  # noqa: TID251 - asked for by its user, at the time it runs
    kit = make_kit(authority.certificate_pem, public_roots(), ProxyAddress(host, int(port)), folder=folder)
    for path, file in kit.files.items():
        put(out / Path(path).relative_to(folder), file.content)
    put(out / "variables.env", variables(kit).encode("ascii"))


def variables(kit: Kit) -> str:
    """For `env_file:` and `docker run --env-file`: as it stands, no quotes."""
    return "".join(f"{name}={value}\n" for name, value in sorted(kit.variables.items()))


def put(path: Path, content: bytes) -> None:
    """In one step: a workload may be reading the one that was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_bytes(content)
    scratch.chmod(READABLE)
    scratch.replace(path)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), *sys.argv[2:])
    except EgressError as error:
        sys.exit(f"error: {error}\nhint: {error.hint}")
