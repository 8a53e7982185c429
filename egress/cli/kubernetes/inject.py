"""`egress k8s inject`: add the gate, the proxy and the certificate to the workloads of a manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress.cli import folder_options, render
from egress.cli.kubernetes import manifest_input
from egress.cli.kubernetes.sidecar_options import LOOPBACK_PROXY, sidecar_plan
from egress.cli.render import count
from egress.doctor.fence import FenceAddress, read_address
from egress.errors import ContentError, UsageError
from egress.types import Severity

if TYPE_CHECKING:
    from egress.kubernetes.manifest_set import PodLabels
    from egress.kubernetes.manifest_text import ManifestText
    from egress.kubernetes.pod_injection import InjectionPlan
    from egress.kubernetes.sidecar_injection import SidecarPlan


@click.command()
@click.argument("file", type=folder_options.FILE, metavar="FILE")
@click.option("--proxy", metavar="ADDRESS", help="Address of the proxy's service. [the service in FILE]")
@click.option(
    "--blocked", multiple=True, metavar="ADDRESS:PORT", help="Another address that the gate dials; repeat it."
)
@click.option("--image", default="egress-proxy", metavar="NAME", help="Image of the gate. [egress-proxy]")
@click.option("--trust", metavar="NAME", help="ConfigMap with the certificate. [egress-trust]")
@click.option("--sidecar", is_flag=True, help="Put a proxy into each pod, and need no network policies.")
@click.option("--rules", metavar="NAME", help="With --sidecar: ConfigMap with the rules. [egress-rules]")
@click.option(
    "--secret", multiple=True, metavar="NAME", help="With --sidecar: a Secret to inject from; repeat it."
)
@click.option(
    "--own-address",
    multiple=True,
    metavar="NETWORK",
    help="With --sidecar: a network of the cluster; repeat it.",
)
@click.option(
    "--uid/--no-uid",
    "asks_for_pod",
    default=None,
    help="Whether the gate asks the proxy for its pod; --no-uid is for one without --kubernetes. [--uid]",
)
@click.option("--skip", multiple=True, metavar="NAME", help="Leave the objects of this name; repeat it.")
@manifest_input.pod_options
def inject(  # noqa: PLR0913 - each parameter is an option
    *,
    file: Path,
    proxy: str | None,
    blocked: tuple[str, ...],
    image: str,
    trust: str | None,
    sidecar: bool,
    rules: str | None,
    secret: tuple[str, ...],
    own_address: tuple[str, ...],
    asks_for_pod: bool | None,
    skip: tuple[str, ...],
    namespace: str,
    labels: PodLabels,
) -> int:
    """Print a manifest in which every workload has the gate, the proxy and its certificate.

    FILE may be `-`. Pods, the templates of deployments, jobs and others, and those of agent-sandbox are
    completed; the proxy and all other objects stay as they are written. A second run changes nothing. Rights
    that nobody set are removed; a right that somebody set is an error, and then nothing is printed.

    With --sidecar the proxy itself runs in each pod, behind a lock of the pod's network that lets its user
    alone out. That needs no network policies, and is no wall for code that is meant to break out.

    \b
    Examples:
      egress k8s inject agent.yaml --proxy 10.96.0.92 | kubectl apply -f -
      egress k8s inject job.yaml --sidecar --rules egress-rules --secret egress-token | kubectl apply -f -
      kubectl kustomize . | egress k8s inject - --blocked 10.96.0.10:53 >completed.yaml
    """
    from egress.kubernetes.manifest_injection import inject_manifests

    (text,) = manifest_input.read_files([file])
    more = tuple(read_address(each) for each in blocked)
    plan: InjectionPlan | SidecarPlan
    if sidecar:
        _refuse_options("--sidecar", {"--proxy": proxy, "--trust": trust, "--uid": asks_for_pod})
        variables = _variables(LOOPBACK_PROXY)
        plan = sidecar_plan(more, image, rules or "egress-rules", secret, own_address, variables, labels)
    else:
        _refuse_options("a gateway", {"--rules": rules, "--secret": secret, "--own-address": own_address})
        address = _address(proxy) if proxy else _address_in(text, namespace, labels)
        plan = _gateway_plan(address, more, image, trust or "egress-trust", labels)
        plan = replace(plan, tells_pods_apart=asks_for_pod is not False)
    injected = inject_manifests(text, plan, namespace, skip)
    # On the error stream: the other one goes to kubectl.
    render.findings((finding.as_finding for finding in injected.findings), stderr=True)
    if not injected.is_usable:
        errors = sum(finding.severity is Severity.ERROR for finding in injected.findings)
        raise ContentError(
            f"nothing was printed: {count(errors, 'error')} in {file}",
            "mend it, or leave the object with --skip",
        )
    render.text(injected.text)
    return 0


def _gateway_plan(
    address: str, more: tuple[FenceAddress, ...], image: str, trust: str, labels: PodLabels
) -> InjectionPlan:
    from egress.kubernetes.pod_injection import BLOCKED_ADDRESSES, InjectionPlan

    variables = _variables(f"http://{address if ':' not in address else f'[{address}]'}:3128")
    blocked = (*BLOCKED_ADDRESSES, *map(str, more))
    return InjectionPlan(address, blocked, image, trust, variables, labels=labels)


def _refuse_options(form: str, given: Mapping[str, object]) -> None:
    for name, value in given.items():
        if value:
            raise UsageError(f"{name} means nothing with {form}", "remove it, or choose the other form")


def _address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise UsageError(
            f"--proxy: `{text[:100]}` is not an IP address", "name the `clusterIP` of the proxy's service"
        ) from None


def _address_in(text: ManifestText, namespace: str, labels: PodLabels) -> str:
    """Return the address of the proxy's service in the file itself."""
    from egress.kubernetes.manifest_objects import objects_of
    from egress.kubernetes.manifest_set import manifest_set

    manifests = manifest_set(objects_of(text, namespace), labels)
    namespaces = {found.namespace for found in manifests.objects}
    addresses = sorted(set().union(*(manifests.proxy_addresses(each) for each in namespaces)))
    if len(addresses) != 1 and not text.findings:
        raise UsageError(
            "the address of the proxy is not in the file", "name the `clusterIP` of its service with --proxy"
        )
    return _address(addresses[0]) if addresses else ""


def _variables(proxy: str) -> dict[str, str]:
    from egress.kubernetes.pod_injection import TRUST_FOLDER
    from egress.runtime.kit.trust_folder_variables import trust_folder_variables

    return trust_folder_variables(proxy, TRUST_FOLDER)
