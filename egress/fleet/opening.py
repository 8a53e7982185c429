"""`open_fleet`: opens the sandboxes that are served already, or starts some for this process.

Sandboxes served by `egress up` are used if the caller asks for nothing special. Otherwise a proxy is started
for this process alone, with a runtime that this machine supports, and both end with the context.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from egress import environment
from egress.fleet import folders
from egress.fleet.embedded_proxy import EmbeddedProxy
from egress.fleet.protocol import SandboxFleet
from egress.fleet.remote import connect_if_served
from egress.fleet.runtime_choice import (
    KUBERNETES_KIND,
    RUNTIME_VARIABLE,
    RuntimeChoice,
    RuntimeParameters,
    cautions_of,
    check_choice,
    choose_runtime,
    open_runtime,
    read_kind,
)
from egress.fleet.snapshot_limits import read_limits
from egress.runtime.docker.engine_socket import engine_sockets, is_socket
from egress.runtime.errors import SandboxError

if TYPE_CHECKING:
    from egress.fleet.fleet import Fleet
    from egress.runtime.docker.runtime import ExpectedSpec
    from egress.runtime.provisioning import StandIns

_RUN_VARIABLE: Final = "EGRESS_RUN_ID"
_machine_clock: Final = time.time  # noqa: TID251 - records are compared across processes


@contextmanager
def open_fleet(  # noqa: PLR0913 - each parameter is a setting of the fleet
    *,
    rules: Sequence[Path] | None = None,
    runtime: str | None = None,
    runtime_dir: Path | None = None,
    state_dir: Path | None = None,
    audit_dir: Path | None = None,
    seccomp: Path | None = None,
    stand_ins: StandIns | None = None,
    options: Sequence[str] = (),
    images: Sequence[str] = (),
    expected: ExpectedSpec | None = None,
) -> Iterator[SandboxFleet]:
    """Open the sandboxes that are served in the runtime folder, or a fleet of this process alone.

    Args:
        rules: files or folders of rules; by default those that `egress serve` would find.
        runtime: docker, namespace, kubernetes, or a runtime of the Docker engine such as runsc; by default
            `EGRESS_RUNTIME`, else the best kind that this machine supports.
        runtime_dir: the folder of the sockets; by default that of `egress serve`.
        state_dir: the state folder, and the runtime folder below it; by default that of `egress serve`.
        audit_dir: the folder of the audit log; by default the one in the state folder.
        seccomp: a seccomp profile for containers, instead of the engine's own.
        stand_ins: makes variables for programs that insist on a credential, from an admission.
        options: further options for `egress serve`.
        images: images that the sandboxes will use: without them no proxy is opened.
        expected: the one sandbox that a fleet of this process will have, so that its container is made ahead.

    A caller that names rules, a runtime, a log, a profile, stand-ins or options gets its own fleet. Raises
    errors of `egress.runtime.errors` and `egress.fleet.errors`, and `EgressError` for invalid settings.
    """
    environ = placed_environment(state_dir, audit_dir)
    folder = runtime_dir or environment.runtime_dir(environ)
    wanted = read_kind(runtime, environ.get(RUNTIME_VARIABLE))
    if all(each is None for each in (rules, runtime, audit_dir, seccomp, stand_ins)) and not options:
        remote = connect_if_served(folder / folders.SOCKET_NAME)
        if remote is not None:
            with remote:
                if wanted in (None, remote.about.kind):
                    yield remote
                    return

    if wanted == KUBERNETES_KIND:
        from egress.fleet.cluster_fleet import open_cluster_fleet, refuse_own_proxy  # noqa: PLC0415 - only there

        refuse_own_proxy(rules=rules, audit_dir=audit_dir, seccomp=seccomp, options=options)
        with open_cluster_fleet(environ, folder) as cluster_fleet:
            yield cluster_fleet
        return

    # After the search for a served fleet, which needs no runtime of this process.
    def choose() -> RuntimeChoice:
        choice = choose_runtime(wanted, environ)
        check_choice(choice, seccomp, images)
        return choice

    if wanted == "namespace":
        # No engine has to be asked, so mistakes show before any process is started.
        check_choice(choose_runtime(wanted, environ), seccomp, images)
    with open_embedded(
        choose,
        environ,
        folder,
        rules or (),
        seccomp=seccomp,
        stand_ins=stand_ins,
        options=options,
        expected=expected,
    ) as fleet:
        yield fleet


def placed_environment(state_dir: Path | None, audit_dir: Path | None) -> Mapping[str, str]:
    """Return the environment with other folders, as variables of `egress serve` name them."""
    named = {"EGRESS_STATE_DIR": state_dir, "EGRESS_AUDIT_DIR": audit_dir}
    placed = {name: str(path) for name, path in named.items() if path is not None}
    return {**environment.read_environment(), **placed}


@contextmanager
def open_embedded(  # noqa: PLR0913 - each parameter is a setting of the fleet
    choose: Callable[[], RuntimeChoice],
    environ: Mapping[str, str],
    folder: Path,
    rules: Sequence[Path] = (),
    *,
    seccomp: Path | None = None,
    stand_ins: StandIns | None = None,
    options: Sequence[str] = (),
    expected: ExpectedSpec | None = None,
    keeps: bool = False,
    private_files: Sequence[Path] = (),
) -> Iterator[Fleet]:
    """Open a fleet of this process alone, with its own proxy.

    `choose` names the runtime, after raising whatever keeps it from being used. It is called while the proxy
    loads, and before the proxy opens anything. With `keeps`, sandboxes in containers outlive a fleet that is
    killed, or leaves them, and those of the last such fleet come back. No sandbox sees `private_files`.
    """
    state = environment.state_dir(environ)
    audit = environment.audit_dir(environ)
    run = environ.get(_RUN_VARIABLE) or secrets.token_hex(4)
    limits = read_limits(environ)
    with ExitStack() as parts:
        private = parts.enter_context(folders.private_folder(folder))
        # Both take most of a second to load, so they load side by side.
        proxy = EmbeddedProxy(private, environ, rules=rules, run=run, options=options, held=True)
        parts.callback(proxy.close)
        from egress.ca.bundle import public_roots  # noqa: PLC0415
        from egress.fleet.env_policy import EnvironmentPolicy  # noqa: PLC0415
        from egress.fleet.fleet import Fleet  # noqa: PLC0415
        from egress.fleet.kept_members import KeptMembers  # noqa: PLC0415
        from egress.fleet.mount_policy import MountPolicy  # noqa: PLC0415
        from egress.fleet.snapshot_store import SnapshotStore  # noqa: PLC0415
        from egress.runtime.protocol import KeepingRuntime  # noqa: PLC0415
        from egress.runtime.provisioning import trust_kit_provisioner  # noqa: PLC0415
        from egress.runtime.proxy_client import ControlProxyClient  # noqa: PLC0415

        choice = choose()
        provision = (
            trust_kit_provisioner(public_roots())
            if stand_ins is None
            else trust_kit_provisioner(public_roots(), stand_ins)
        )
        home = folders.sandbox_home(folder, choice.kind)
        # Sandboxes must never see the proxy's sockets, state, log, key or password.
        own = (*_own_files(environ, options), *private_files)
        guarded = (folder, private, state, audit, *own, *_engines(environ))
        # The runtime sets up what needs no proxy before it asks the proxy for the first time.
        proxy_client = ControlProxyClient(private, proxy.release)
        parameters = RuntimeParameters(
            proxy_client, home, provision, guarded, seccomp, _machine_clock, keeps, expected
        )
        made, about = open_runtime(choice, parameters)
        # A runtime that has asked the proxy for nothing yet does not hold it back any longer.
        proxy.release()
        about = replace(about, audit=audit, run=run, runtime_dir=private)
        # Of the environment that the proxy was started with: its secrets are read from there.
        environment_policy = EnvironmentPolicy.for_proxy(private, environ)
        trusted = ("--upstream-ca", "--otlp-ca", "--handlers")
        roots = tuple(path for flag in trusted for path in _given_paths(flag, environ, options))
        mount_policy = MountPolicy.for_proxy(private, environ, roots)
        kept = None
        if keeps and isinstance(made, KeepingRuntime):
            kept = KeptMembers(made, _machine_clock, proxy_client.bars)
        fleet = Fleet(
            made,
            about=about,
            check=proxy.check,
            variables=environment_policy,
            check_mounts=mount_policy.check,
            canary_offenders=proxy_client.canary_offenders,
            revoked=proxy_client.revoked_sandboxes,
            snapshots=SnapshotStore(state, limits),
            kept=kept,
        )
        parts.callback(fleet.close)
        # Known only now: which sandboxes of the last fleet did not come back.
        losses = () if kept is None else kept.losses
        fleet.about = replace(about, cautions=(*cautions_of(made), *losses))
        yield fleet


def _engines(environ: Mapping[str, str]) -> list[Path]:
    """The sockets of engines at other places than those that are never mounted anyway."""
    try:
        return [each.path for each in engine_sockets(environ) if is_socket(each.path)]
    except SandboxError:
        # An engine of another machine has no socket here.
        return []


_OWN_FILES: Final = (
    "--audit-dir",
    "--audit-key",
    "--authority-file",
    "--metrics-token-file",
    "--otlp-headers-file",
    "--password-file",
    "--service-account",
    "--state-dir",
)


def _own_files(environ: Mapping[str, str], options: Sequence[str]) -> Iterator[Path]:
    """Files that the settings place elsewhere and no sandbox may see: the log, keys, passwords, tokens."""
    for flag in _OWN_FILES:
        yield from _given_paths(flag, environ, options)


def _given_paths(flag: str, environ: Mapping[str, str], options: Sequence[str]) -> Iterator[Path]:
    """The paths that a setting has, by its variable and by its option; several stand with colons between."""
    found = [environ.get("EGRESS_" + flag[2:].upper().replace("-", "_"), "")]
    for word, after in pairwise((*options, "")):
        if word == flag:
            found.append(after)
        elif word.startswith(f"{flag}="):
            found.append(word.removeprefix(f"{flag}="))
    yield from (Path(path) for text in found for path in {text, *text.split(":")} if path)
