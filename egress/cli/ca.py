"""`egress ca`: certificate authorities on this machine. Shows certificates, never keys."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress import environment
from egress.cli import atomic_write, folder_options, render
from egress.cli.render import BAD, BOLD, DIM, Cell
from egress.errors import EgressError, UsageError
from egress.policy.rule_file_reader import printable_path
from egress.policy.state_dir_ownership import check_state_dir, make_state_dir
from egress.types import Identity

if TYPE_CHECKING:
    from egress.ca import Authority, AuthorityStore, Constraints

REPLACING = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
"""Variables that replace all trusted certificates of a program: they need the bundle."""
ADDING = ("NODE_EXTRA_CA_CERTS",)
"""Variables that add to a program's trusted certificates."""

_PATH = click.Path(path_type=Path, readable=False)
type Command = Callable[..., int]


@click.group()
def ca() -> None:
    """Show, export and renew the certificate that clients trust."""


def _where(command: Command) -> Command:
    """Add the two options that select the authority."""
    named = click.option(
        "--sandbox", default="default", metavar="NAME", help="The sandbox, as named for `egress serve`."
    )
    return named(folder_options.state_dir(command))


@ca.command(short_help="Show an authority: fingerprint, validity, key file.")
@_where
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(sandbox: str, state_dir: Path | None, as_json: bool) -> int:
    """Show an authority: its fingerprint, validity and key file.

    \b
    Examples:
      egress ca show
      egress ca show --json
    """
    # Only checked: showing must not create a folder.
    store = _store(state_dir, check_state_dir)
    if not store.has(sandbox):
        return _show_none(store, sandbox, as_json=as_json)
    authority = store.load(sandbox)
    if as_json:
        render.data(_as_data(authority, store))
    else:
        render.table(_rows(authority, store))
    return 0


@ca.command(short_help="Print the certificate for clients.")
@_where
@click.option("--bundle", is_flag=True, help="Include the public roots.")
@click.option("--out", type=_PATH, metavar="FILE", help="Write to a file and show how to use it.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def export(sandbox: str, state_dir: Path | None, bundle: bool, out: Path | None, force: bool) -> int:
    """Print the certificate for clients; creates the authority if it is missing.

    Never prints the key. Some programs need a single file with all trusted certificates: use --bundle.

    \b
    Examples:
      egress ca export
      egress ca export --bundle --out egress-bundle.pem
    """
    from egress.ca import merged_bundle
    from egress.cli.rule_options import now

    # Refused, because an ignored --force would hide a forgotten --out.
    if force and out is None:
        raise UsageError("--force replaces a file, but none is named", "add --out FILE")
    store = _store(state_dir, make_state_dir)
    is_new = not store.has(sandbox)
    pem = store.open(sandbox, now()).certificate_pem
    if is_new:
        # Run as another user than the proxy, this creates a certificate that no proxy signs with.
        render.line(
            ("note: ", DIM),
            f"created a new authority in {printable_path(store.directory)}; "
            "a proxy of another user, or with another --state-dir, uses its own",
            stderr=True,
        )
    text = (merged_bundle(pem) if bundle else pem).decode("ascii", "replace")
    if out is None:
        render.text(text)
        return 0
    atomic_write.write(out, text, replace=force, option="--out")
    _show_variables(out.absolute(), bundle=bundle)
    return 0


@ca.command(short_help="Create a new authority with a new key.")
@_where
@click.option("--constrain", is_flag=True, help="Only sign for hosts of the rules.")
@click.option("--rules", "-r", "files", multiple=True, type=_PATH, help="Rule file; may be repeated.")
@click.option("--profile", "-p", help="The profile of the sandbox, with --constrain.")
def rotate(
    sandbox: str, state_dir: Path | None, constrain: bool, files: tuple[Path, ...], profile: str | None
) -> int:
    """Create a new authority with a new key; the old key is deleted.

    Clients that trust the old certificate refuse the new one until they get it.

    \b
    Examples:
      egress ca rotate
      egress ca rotate --constrain --rules config/hosts.yaml
    """
    from egress.cli.rule_options import now

    if (files or profile is not None) and not constrain:
        raise UsageError("--rules and --profile are only used with --constrain", "add --constrain")
    store = _store(state_dir, make_state_dir)
    replaced = store.has(sandbox)
    # Read first: the old key and certificate are gone after the rotation.
    before = _fingerprint(store, sandbox) if replaced else ""
    authority = store.rotate(
        sandbox, now(), _constraints(files, Identity(sandbox, profile)) if constrain else None
    )
    rows = _rows(authority, store)
    if before:
        at = next(n for n, row in enumerate(rows) if row[1] == authority.fingerprint)
        rows.insert(at + 1, [("before", DIM), before])
    render.table(rows)
    render.line()
    if replaced:
        render.line("the old key is deleted; update everything that used it:")
        render.line(f"  restart `egress serve`, which uses the old key of {sandbox} until then")
        render.line("  give clients the new certificate, and restart them:")
    else:
        render.line("no authority existed before; print the certificate with:")
    # The printed command must work in another shell, so paths are absolute.
    named = ["--state-dir", str(state_dir.absolute())] if state_dir is not None else []
    render.line("    ", shlex.join(["egress", "ca", "export", *named, "--sandbox", sandbox]), whole=True)
    return 0


def _store(state_dir: Path | None, check: Callable[[Path], None]) -> AuthorityStore:
    from egress.ca import AuthorityStore

    state = environment.state_dir(environment.read_environment()) if state_dir is None else state_dir
    check(state)
    return AuthorityStore(state / "ca")


def _fingerprint(store: AuthorityStore, sandbox: str) -> str:
    """Return the fingerprint of the authority being replaced; an unreadable one is replaced, too."""
    try:
        return store.load(sandbox).fingerprint
    except EgressError:
        return "a file that could not be used"


def _constraints(files: tuple[Path, ...], identity: Identity) -> Constraints:
    from egress.ca import Constraints
    from egress.cli import rule_options
    from egress.rules.language.report import quoted

    # Constraints are fixed in the certificate, so broken rules must stop here.
    _, policy = rule_options.policy(files)
    if policy.profiles is not None and (identity.profile or "default") not in policy.profiles:
        name = quoted(identity.profile or "default")
        raise UsageError(f"these rules have no profile {name}", f"profiles: {', '.join(policy.profiles)}")
    return Constraints.for_policy(policy, identity)


# For people -----------------------------------------------------------------------------------


def _rows(authority: Authority, store: AuthorityStore) -> list[list[Cell]]:
    from egress.cli.rule_options import now

    is_over = not authority.is_valid_at(now())
    until = f"{_day(authority.not_before)} to {_day(authority.not_after)}"
    return [
        [("sandbox", DIM), (authority.name, BOLD)],
        [("subject", DIM), authority.subject],
        [("sha-256", DIM), authority.fingerprint],
        [("valid", DIM), (f"{until}, not now", BAD) if is_over else until],
        [("signs for", DIM), _names(authority.constraints)],
        [("key", DIM), str(store.path(authority.name))],
    ]


def _names(constraints: Constraints | None) -> str:
    if constraints is None:
        return "every host"
    return ", ".join(constraints.names) or "no host"


def _show_none(store: AuthorityStore, sandbox: str, *, as_json: bool) -> int:
    if as_json:
        render.data({"sandbox": sandbox, "key": str(store.path(sandbox)), "exists": False})
    else:
        render.line(f"the sandbox {sandbox} has no authority yet")
        render.line("`egress serve` and `egress ca export` create it when it is first needed")
    return 0


def _show_variables(path: Path, *, bundle: bool) -> None:
    render.line(f"wrote {path}; set it for programs with:")
    # Without the public roots, a replacing variable would break every other host.
    for variable in (*REPLACING, *ADDING) if bundle else ADDING:
        render.line(f"  {variable}={path}")
    if not bundle:
        render.line(f"with --bundle, the file also works for {', '.join(REPLACING)}")


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


# For programs ---------------------------------------------------------------------------------


def _as_data(authority: Authority, store: AuthorityStore) -> dict[str, object]:
    from egress.cli.rule_options import now

    constraints = authority.constraints
    return {
        "sandbox": authority.name,
        "subject": authority.subject,
        "sha256": authority.fingerprint,
        "not_before": authority.not_before,
        "not_after": authority.not_after,
        "valid": authority.is_valid_at(now()),
        "signs_for": None if constraints is None else list(constraints.names),
        "key": str(store.path(authority.name)),
        "exists": True,
    }
