"""The processes of a container, as this machine sees them."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.installed_chart import InstalledChart
from tests.cluster.running_cluster import Json


def container_id(pod: Json, name: str) -> str:
    (status,) = [each for each in pod["status"]["containerStatuses"] if each["name"] == name]
    return str(status["containerID"]).partition("//")[2]


def container_processes(chart: InstalledChart, pod: str, name: str) -> list[Path]:
    """The folders in /proc, the first process first; at least one."""
    identity = container_id(chart.cluster.pod(chart.namespace, pod), name)
    found = [each for each in Path("/proc").glob("[0-9]*") if identity in _control_group(each)]
    assert found, f"{name} of {pod} has no process"
    return sorted(found, key=lambda each: int(each.name))


def _control_group(process: Path) -> str:
    try:
        return (process / "cgroup").read_text("utf-8")
    except OSError:
        # It has ended meanwhile.
        return ""
