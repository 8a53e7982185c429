"""`egress k8s`: the group of commands about Kubernetes manifests."""

from __future__ import annotations

import click

from egress.cli.kubernetes.check import check


@click.group()
def k8s() -> None:
    """Check Kubernetes manifests of sandboxes.

    \b
    Examples:
      egress k8s check kubernetes.yaml
      kubectl kustomize overlays/agents | egress k8s check -
    """


k8s.add_command(check)
