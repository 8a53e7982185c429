"""Checks the text of a rule file in a process of its own, which the kernel ends when it takes too long.

    python -P -m egress.policy.rule_text_check < hosts.yaml

A text can be made to keep a processor busy for minutes. The caller serves others, so the work is done here,
within limits that no text can lift. The answer is one JSON object on the output.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Final

from egress.policy.bundled_presets import preset_texts
from egress.rules.compile.load import RuleText, load

CPU_SECONDS: Final = 4
MEMORY_BYTES: Final = 1024 * 1024 * 1024
MAX_FINDINGS: Final = 200
"""Findings of one answer. The rest is counted."""
_NAME: Final = "rules"


def main() -> None:
    """Read the text, and print what was found."""
    # Before a byte is read. The hard limit kills: a handler for the soft one could go on.
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    now = int(time.time())  # noqa: TID251 - a process of its own, whose rules may expire
    sys.stdout.write(json.dumps(report(text, now)))


def report(text: str, now: int) -> dict[str, object]:
    """Return the findings and the digest of a text, as plain data."""
    loaded = load([RuleText(_NAME, text)], preset_texts(), now)
    findings = [
        {
            "line": each.place.line,
            "column": each.place.column,
            "severity": each.severity.value,
            "message": each.message,
            "hint": each.hint,
        }
        for each in loaded.findings[:MAX_FINDINGS]
    ]
    digest = None if loaded.policy is None else loaded.policy.digest
    return {
        "ok": loaded.policy is not None,
        "digest": digest,
        "findings": findings,
        "total": len(loaded.findings),
    }


if __name__ == "__main__":
    main()
