"""The grants of a running sandbox, put beside the rules of files: what its proxy decides by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from egress.cli import render
from egress.cli.render import DOUBT
from egress.errors import ContentError, UsageError
from egress.rules.compile.grants import read_grant
from egress.rules.decide.overlay import Overlay
from egress.types import Identity, parameters_of

if TYPE_CHECKING:
    from egress.rules.decide.policy import Policy


def with_grants(policy: Policy, sandbox: str, runtime_dir: Path | None) -> tuple[Policy, Identity]:
    """Return the policy with the grants of a running sandbox, and the sandbox as its proxy knows it."""
    # Imported here, since it loads what runs sandboxes.
    from egress.cli.proxy_choice import proxy_of

    answer = proxy_of(sandbox, runtime_dir, None).policy.body
    profile, found, params = answer.get("profile"), answer.get("grants"), answer.get("params")
    given = {str(name): str(value) for name, value in params.items()} if isinstance(params, dict) else {}
    identity = Identity(sandbox, profile if isinstance(profile, str) else None, parameters_of(given))
    if answer.get("policy") != policy.digest:
        said = "the proxy does not decide by these files alone: it has others, or something is revoked"
        render.line(("note: ", DOUBT), said, stderr=True)
    try:
        grants = tuple(
            read_grant(each, policy, identity) for each in (found if isinstance(found, list) else ())
        )
    except UsageError as error:
        raise ContentError(
            f"a grant of the proxy does not fit these rules: {error.message}",
            "name the rule files of that proxy with --rules",
        ) from None
    return replace(policy, overlays={sandbox: Overlay(identity, grants)}), identity
