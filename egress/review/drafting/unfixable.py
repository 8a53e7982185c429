"""Why no rule that is added would let something through: it was not for want of a rule that it was denied.

The rules at hand may decide such a request as they like; what denied it would deny it again. A line has
no header, no query and no body, so deciding it again does not find what was there.
"""

from __future__ import annotations

from egress.errors import CODES
from egress.review.drafting.observation import Observation
from egress.rules.decide import paths

_IN_NO_LINE = frozenset({"method.override", "path.override"})
_CURES = {
    "limit.": "the limit itself is what to change, under `limits` of the rules",
    "redirect.refused": "`redirects` of the rule says which may pass",
    "response.withheld": "`scrub` of the rule says what becomes of a secret that comes back",
    "secret.existing": "`on_existing` of the injection says what becomes of a value that is there already",
    "secret.unavailable": "`egress doctor` tries the sources of secrets",
    "placeholder.": "`in` of the placeholder says where it is swapped",
    "proxy.": "this is about who may use the proxy",
}
"""By code, or the beginning of one: what the operator can do. The hints of `CODES` speak to the sandbox."""


def unfixable_reason(one: Observation) -> str:
    """Why no rule that is added would allow it; empty where one may."""
    if one.is_canary:
        return (
            f"it carried a canary, a value that nothing may send ({one.code}): no rule can allow that, and"
            " what sent it has read what was planted"
        )
    if one.passed:
        return f"it was let through, and then ended: {_said(one.code)}" if one.code in CODES else ""
    if not one.is_denied_by_rules:
        return f"it was not a rule that denied it, so YAML alone will not help: {_said(one.code)}"
    if one.code in _IN_NO_LINE or (one.code == "path.ambiguous" and _is_plain(one.path)):
        return (
            f"it was for a header or the query, which are in no line, and no rule lifts it: {_said(one.code)}"
        )
    return ""


def _said(code: str) -> str:
    known = CODES.get(code)
    if known is None:
        return "its reason is none that this version knows"
    cure = next((f"; {cure}" for start, cure in _CURES.items() if code.startswith(start)), "")
    return f"{known.message[:1].lower()}{known.message[1:].removesuffix('.')} ({code}){cure}"


def _is_plain(path: str) -> bool:
    """Whether every server reads this path in one way."""
    try:
        return paths.canonical_path(path, strict=True, encoded_slash=False) == path
    except paths.PathError:
        return False
