"""`egress k8s`: the group of commands about Kubernetes."""

from __future__ import annotations

import click

from egress.cli.kubernetes.ca import ca
from egress.cli.kubernetes.check import check
from egress.cli.kubernetes.inject import inject


@click.group()
def k8s() -> None:
    """Check and complete Kubernetes manifests; make an authority.

    \b
    Examples:
      egress k8s check kubernetes.yaml
      egress k8s inject agent.yaml --proxy 10.96.0.92 | kubectl apply -f -
    """


k8s.add_command(ca)
k8s.add_command(check)
k8s.add_command(inject)
