"""`egress k8s ca`: make the authority of a gateway once, and keep it in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from egress.cli import render
from egress.cli.render import GOOD

if TYPE_CHECKING:
    from egress.ca.authority import Authority
    from egress.cluster.api_server import ClusterApi
    from egress.cluster.authority_renewal import AuthorityFiles, Outcome

_CURE = "delete it, and run this again: no sandbox can have used it"
_NEXT: dict[Outcome, str] = {
    "renewed": "new pods trust both authorities; replace the older ones, then run this with --retire",
    "completed": "new pods trust both authorities now; replace the older ones, then run this with --retire",
    "retired": "the gateway signs with the new authority in a minute; run this again in five minutes",
    "removed": "pods trust the new authority alone",
}


@click.command(short_help="Make the authority of a gateway, or renew it.")
@click.option("--namespace", "-n", default="", metavar="NAME", help="Namespace of the gateway. [of this pod]")
@click.option("--renew", "step", flag_value="renew", help="Add a new authority beside the one there is.")
@click.option("--retire", "step", flag_value="retire", help="Remove the old one that no pod needs any more.")
def ca(namespace: str, step: str | None) -> int:
    """Make the authority of a gateway: a Secret for its replicas, a ConfigMap for sandboxes.

    The Secret `egress-authority` has the key and is for the gateway alone. The ConfigMap `egress-trust` has
    the certificate, alone and with the public roots. Objects that are there are changed by `--renew` and
    `--retire` alone. The cluster is that of KUBECONFIG, or the one that this pod is in.

    To renew an authority without a failed request: `--renew`, replace the sandboxes, `--retire`, and
    `--retire` again five minutes later. The gateway signs with the old one until then, which all pods trust.

    \b
    Examples:
      egress k8s ca --namespace agents
      egress k8s ca --namespace agents --renew
      egress k8s ca --namespace agents --retire
    """
    from egress import environment
    from egress.cluster import authority_objects as objects
    from egress.cluster.cluster_choice import choose_cluster

    api = choose_cluster(environment.read_environment(), namespace=namespace)
    place = f"the Secret {api.namespace}/{objects.AUTHORITY_NAME}"
    files = _files(place)
    if step is not None:
        return _change(api, files, step)
    # The Secret first: whoever creates it decides, and its certificate is the one to trust.
    file, is_new = objects.keep_authority(api, files.make)
    has_new_trust = objects.keep_trust(api, files.trust(files.split(file)))
    _say(place, is_new=is_new)
    _say(f"the ConfigMap {api.namespace}/{objects.TRUST_NAME}", is_new=has_new_trust)
    for authority in _authorities(file, place):
        render.line(f"sha-256 {authority.fingerprint}")
    return 0


def _files(place: str) -> AuthorityFiles:
    from egress.ca import keyfile, merged_bundle, new_authority_file
    from egress.cli.rule_options import now
    from egress.cluster.authority_objects import TrustTexts
    from egress.cluster.authority_renewal import AuthorityFiles

    def split(file: bytes) -> tuple[bytes, ...]:
        return tuple(keyfile.as_pem(*pair) for pair in keyfile.parse_all(file, place, _CURE))

    def trust(held: tuple[bytes, ...]) -> TrustTexts:
        found = tuple(each.certificate_pem for file in held for each in _authorities(file, place))
        bundle = merged_bundle(b"".join(found)).decode("ascii", "replace")
        return TrustTexts(tuple(each.decode("ascii") for each in found), bundle)

    return AuthorityFiles(split, trust, lambda: new_authority_file("gateway", now()))


def _authorities(file: bytes, place: str) -> list[Authority]:
    from egress.ca import keyfile
    from egress.ca.authority import Authority

    return [Authority("gateway", *pair) for pair in keyfile.parse_all(file, place, _CURE)]


def _change(api: ClusterApi, files: AuthorityFiles, step: str) -> int:
    from datetime import UTC, datetime

    from egress.cli.rule_options import now
    from egress.cluster.authority_renewal import renew, retire

    moment = datetime.fromtimestamp(now(), UTC)
    outcome = (renew if step == "renew" else retire)(api, files, moment)
    render.line(("done: ", GOOD), _NEXT[outcome])
    return 0


def _say(place: str, *, is_new: bool) -> None:
    render.line(("made " if is_new else "left ", GOOD), place, "" if is_new else " as it is")
