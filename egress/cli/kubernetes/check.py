"""`egress k8s check`: name every weakness of the fence around the sandboxes of manifests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress.cli import render
from egress.cli.finding_summary import is_failure, show
from egress.cli.kubernetes import manifest_input
from egress.cli.render import count
from egress.errors import UsageError

if TYPE_CHECKING:
    from egress.kubernetes.manifest_check import AcceptedRisk, CheckedManifests
    from egress.kubernetes.manifest_set import PodLabels


@click.command()
@manifest_input.files
@manifest_input.pod_options
@click.option(
    "--accept",
    multiple=True,
    metavar="CODE[:NAME]",
    help="Show a finding as a notice, everywhere or at the objects of this name; repeat it.",
)
@click.option("--strict", is_flag=True, help="Treat warnings as errors; notices are none.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(
    files: tuple[Path, ...],
    namespace: str,
    labels: PodLabels,
    accept: tuple[str, ...],
    strict: bool,
    as_json: bool,
) -> int:
    """Name every weakness of the fence around the sandboxes in Kubernetes manifests.

    All files are read together, because the policies of a pod add up. FILE may hold several documents, or be
    `-` for standard input. No cluster is asked, and every pod is taken for a sandbox but those of the proxy.
    The reference explains each code.

    \b
    Examples:
      egress k8s check kubernetes.yaml
      helm template agents | egress k8s check - --namespace agents
      egress k8s check *.yaml --accept label.missing:dashboard
    """
    # Imported here: `--help` of the group needs none of it.
    from egress.kubernetes.manifest_check import check_manifests

    risks = [_accepted(text) for text in accept]
    checked = check_manifests(manifest_input.read_files(files), namespace, labels, risks)
    # Shared by both forms of output, so that they cannot disagree about the exit status.
    failed = is_failure([finding.severity for finding in checked.findings], strict=strict)
    names = [str(path) for path in files]
    if as_json:
        render.data(_as_data(names, checked, ok=not failed))
    else:
        printed = [finding.as_finding for finding in checked.findings]
        show(printed, ", ".join(names), lambda: _summary(checked), failed=failed)
    return int(failed)


def _accepted(text: str) -> AcceptedRisk:
    from egress.kubernetes.manifest_check import AcceptedRisk
    from egress.kubernetes.manifest_findings import FINDING_CODES

    code, _, name = text.partition(":")
    # A mistake in a manifest hides whatever is behind it, so nobody knows what would be accepted.
    if code not in FINDING_CODES or code in {"manifest.text", "manifest.shape", "manifest.size"}:
        raise UsageError(
            f"--accept: `{text[:100]}` is not a code that can be accepted",
            "the reference lists them; write CODE, or CODE:NAME for the objects of one name",
        )
    return AcceptedRisk(code, name)


def _summary(checked: CheckedManifests) -> str:
    counts = (
        (checked.objects, "object"),
        (checked.sandboxes, "sandbox pod"),
        (checked.policies, "network policy"),
    )
    return ", ".join(count(number, noun) for number, noun in counts)


def _as_data(names: list[str], checked: CheckedManifests, *, ok: bool) -> dict[str, object]:
    return {
        "ok": ok,
        "files": names,
        "objects": checked.objects,
        "sandboxes": checked.sandboxes,
        "policies": checked.policies,
        "findings": [
            {
                "code": finding.code,
                "severity": finding.severity,
                "file": finding.place.file,
                "line": finding.place.line,
                "column": finding.place.column,
                "document": finding.document,
                "object": finding.title,
                "path": finding.path,
                "message": finding.message,
                "hint": finding.hint,
            }
            for finding in checked.findings
        ],
    }
