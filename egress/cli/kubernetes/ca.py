"""`egress k8s ca`: make the authority of a gateway once, and keep it in the cluster."""

from __future__ import annotations

import click

from egress.cli import render
from egress.cli.render import GOOD


@click.command(short_help="Make the authority of a gateway, once.")
@click.option("--namespace", "-n", default="", metavar="NAME", help="Namespace of the gateway. [of this pod]")
def ca(namespace: str) -> int:
    """Make the authority of a gateway: a Secret for its replicas, a ConfigMap for sandboxes.

    The Secret `egress-authority` has the key and is for the gateway alone. The ConfigMap `egress-trust` has
    the certificate, alone and with the public roots. Objects that are there are never changed. The cluster is
    that of KUBECONFIG, or the one that this pod is in.

    \b
    Examples:
      egress k8s ca --namespace agents
    """
    from egress import environment
    from egress.ca import keyfile, merged_bundle, new_authority_file
    from egress.ca.authority import Authority
    from egress.cli.rule_options import now
    from egress.cluster import authority_objects as objects
    from egress.cluster.cluster_choice import choose_cluster

    api = choose_cluster(environment.read_environment(), namespace=namespace)
    # The Secret first: whoever creates it decides, and its certificate is the one to trust.
    file, is_new = objects.keep_authority(api, lambda: new_authority_file("gateway", now()))
    place = f"the Secret {api.namespace}/{objects.AUTHORITY_NAME}"
    parsed = keyfile.parse(file, place, "delete it, and run this again: no sandbox can have used it")
    authority = Authority("gateway", *parsed)
    certificate = authority.certificate_pem
    bundle = merged_bundle(certificate).decode("ascii", "replace")
    has_new_trust = objects.keep_trust(api, objects.TrustTexts(certificate.decode("ascii"), bundle))
    _say(place, is_new=is_new)
    _say(f"the ConfigMap {api.namespace}/{objects.TRUST_NAME}", is_new=has_new_trust)
    render.line(f"sha-256 {authority.fingerprint}")
    return 0


def _say(place: str, *, is_new: bool) -> None:
    render.line(("made " if is_new else "left ", GOOD), place, "" if is_new else " as it is")
