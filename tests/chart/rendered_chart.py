"""What Helm makes of the chart: rendered once for each set of values."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

type Json = dict[str, Any]

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "charts/egress"
EXAMPLES: Final = tuple(sorted((CHART / "examples").glob("*.yaml")))
HELM: Final = Path(sys.executable).with_name("helm")

# Each part of the chart is in one of them, and its opposite in another.
VALUES: Final[Mapping[str, Json]] = {
    "default": {},
    "small": {
        "gateway": {"replicas": 1, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
        "state": {"kind": "memory"},
        "rules": {"create": False},
        "image": {"pullSecrets": ["registry"]},
        "admission": {"validate": False},
    },
    "large": {
        "image": {"name": "registry.example.com/egress/egress-proxy@sha256:" + "0" * 64},
        "gateway": {
            "replicas": 3,
            "spread": "DoNotSchedule",
            "nodeSelector": {"pool": "system"},
            "priorityClassName": "system-cluster-critical",
            "arguments": ["--log-level=debug"],
        },
        "state": {"storageClass": "fast"},
        "gate": {"canary": "9.9.9.9:443"},
        "admission": {
            "images": ["egress-proxy:old"],
            "namespaceSelector": {"matchLabels": {"egress": "fenced"}},
        },
        "secrets": {"readable": ["github", "registry"]},
        "metrics": {"enabled": True, "serviceMonitor": True, "scraper": {"namespace": "observability"}},
        "outbound": {
            "rules": [{"to": [{"namespaceSelector": {}, "podSelector": {}}], "ports": [{"port": 4318}]}]
        },
        "cluster": {
            "apiServers": [{"address": "10.96.0.1", "port": 443}, {"address": "fd00::5", "port": 6443}],
            "nodeRanges": ["10.0.0.0/16", "fd00::/64"],
        },
    },
}


class HelmError(Exception):
    """Helm refused the values, or the chart."""


@functools.cache
def _template(values: str, options: tuple[str, ...]) -> str:
    done = subprocess.run(
        [HELM, "template", "egress", CHART, "--namespace", "agents", "--values", "-", *options],
        input=values,
        capture_output=True,
        text=True,
        check=False,
        # Helm looks for its own folders there.
        env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},
    )
    if done.returncode:
        raise HelmError(done.stderr)
    return done.stdout


def rendered(values: Json | None = None, *options: str) -> str:
    """The manifests, as Helm prints them. Raises `HelmError`."""
    return _template(json.dumps(values or {}), options)


def parsed(text: str) -> list[Json]:
    """The objects of a stream of documents."""
    return [each for each in YAML(typ="safe").load_all(text) if each]


@functools.cache
def _as_json(values: str, options: tuple[str, ...]) -> str:
    return json.dumps(parsed(_template(values, options)))


def objects(values: Json | None = None, *options: str) -> list[Json]:
    """The objects of the chart."""
    found: list[Json] = json.loads(_as_json(json.dumps(values or {}), options))
    return found


def one(found: list[Json], kind: str, name: str = "") -> Json:
    (only,) = [each for each in found if each["kind"] == kind and name in {"", each["metadata"]["name"]}]
    return only
