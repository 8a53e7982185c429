"""Real tools in real sandboxes, as their users start them: `egress run`, with presets as they are shipped.

    with ToolLab(tmp_path, "namespace", {"api.anthropic.com": AnthropicApi(KEY)}) as lab:
        ran = lab.run("claude", "-p", "hello", agent="claude-code")

The vendors are stand-ins under their real names: the proxy is told where the names lead, and which
authority signs for them. Stand-ins are on loopback, which one line of the rules for each name allows. The
secrets stand in the environment of `egress`, where their users have them.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self

from tests.cli.command import Outcome, egress, put
from tests.proxy.lab.certificates import Certificates
from tests.tools.vendor_server import Vendor, VendorCall, VendorServer

type RuntimeKind = Literal["docker", "namespace"]

RUNTIMES: Final[tuple[RuntimeKind, ...]] = ("docker", "namespace")
RUN_TIMEOUT: Final = 240.0
"""Seconds; only a tool that hangs gets to know them."""

certs: Final = Certificates()


@dataclass(frozen=True, slots=True)
class Around:
    """What a test sets for itself, so that no claim rests on it: where tools lie, and the image."""

    image: str
    mounts: Sequence[tuple[Path, str]] = ()
    """Folders of this machine, and where a sandbox sees them, read-only."""
    path: Sequence[str] = ()
    """Folders of programs in the sandbox, before its own."""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass
class ToolLab:
    """Vendors, and sandboxes behind the proxy, from `with` to its end."""

    folder: Path
    runtime: RuntimeKind
    vendors: Mapping[str, Vendor]
    rules: str
    """Lines of the rule file beside `version`, without `hosts`."""
    secrets: Mapping[str, str]
    """By the variables that presets take them from."""
    around: Around
    more_hosts: Mapping[str, str] = field(default_factory=dict)
    """Keys of entries of their own, by host."""

    def __enter__(self) -> Self:
        self.server = VendorServer(certs, self.vendors)
        self.server.__enter__()
        self.home = self.folder / "home"
        self.workspace = self.folder / "work"
        # Paths of sockets may not be long, and those of tests are.
        self.runtime_dir = Path(tempfile.mkdtemp(prefix="egress-"))
        for each in (self.home, self.workspace):
            each.mkdir()
        # The sandbox is another user than the one who runs the tests.
        self.workspace.chmod(0o777)
        self.ca = certs.write_ca(self.folder / "vendors.pem")
        self.rule_file = put(self.folder / "hosts.yaml", self._rules())
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()
        shutil.rmtree(self.runtime_dir)

    def _rules(self) -> str:
        own = dict.fromkeys(self.vendors, "addresses: [127.0.0.0/8]")
        lines = [
            f"  {host}: {{{', '.join(filter(None, (own[host], self.more_hosts.get(host))))}}}" for host in own
        ]
        return "\n".join(["version: 1", self.rules.strip(), "hosts:", *lines, ""])

    def run(
        self,
        *command: str,
        agent: str = "",
        env: Mapping[str, str] | None = None,
        more: Sequence[str] = (),
    ) -> Outcome:
        """Run a command in a sandbox of its own. `env` is what its user has to set."""
        options = [f"--rules={self.rule_file}", f"--runtime={self.runtime}", "--quiet"]
        options += [f"--agent={agent}"] if agent else []
        options += [f"--image={self.around.image}"] if self.runtime == "docker" else []
        options += [f"--mount={folder}:{place}" for folder, place in self.around.mounts]
        options += [f"--mount={self.workspace}:/workspace:rw"]
        around = {**self._path(), **self.around.env, **(env or {})}
        options += [f"--env={name}={value}" for name, value in around.items()]
        self.server.calls.clear()
        outcome = egress(
            "run",
            *options,
            *more,
            "--",
            *command,
            cwd=self.folder,
            env=self._environment(),
            timeout=RUN_TIMEOUT,
        )
        self._judge(outcome)
        return outcome

    def _path(self) -> dict[str, str]:
        usual = ("/usr/local/bin", "/usr/bin", "/bin")
        return {"PATH": ":".join([*self.around.path, *usual])} if self.around.path else {}

    def _environment(self) -> dict[str, str]:
        resolved = ",".join(f"{host}={self.server.address}" for host in self.vendors)
        return {
            **self.secrets,
            "HOME": str(self.home),
            "EGRESS_RUNTIME_DIR": str(self.runtime_dir),
            "EGRESS_RESOLVE": resolved,
            "EGRESS_UPSTREAM_CA": str(self.ca),
        }

    def _judge(self, outcome: Outcome) -> None:
        """What holds for every run: no vendor failed, no stranger was called, and no secret came back."""
        assert not self.server.mistakes, self.server.mistakes
        for value in self.secrets.values():
            assert value not in outcome.said
            for path in self.workspace.rglob("*"):
                assert not path.is_file() or value.encode() not in path.read_bytes(), path

    # What came of it

    def calls(self, host: str, path: str = ".*") -> list[VendorCall]:
        """What arrived at a vendor."""
        return [call for call in self.server.calls if call.host == host and re.fullmatch(path, call.path)]

    def written(self, name: str) -> str:
        """A file that the tool left in its working folder."""
        return (self.workspace / name).read_text("utf-8")

    def record(self) -> list[dict[str, Any]]:
        """The exchanges in the audit log of the runs, in their order."""
        logs = sorted((self.home / ".local/state/egress/audit").rglob("audit-*.jsonl"))
        lines = [json.loads(line) for log in logs for line in log.read_text("utf-8").splitlines()]
        return [line for line in lines if line["event"] == "exchange"]

    def told(self) -> str:
        """What arrived, for a message of a failed test."""
        return "\n".join(
            f"{call.status} {call.method} {call.host}{call.target}" for call in self.server.calls
        )
