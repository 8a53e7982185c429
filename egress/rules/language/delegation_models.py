"""The shapes of `delegate:` of a rule file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from egress.rules.language.strict_model import Model, Ports, Size


class DelegateTo(Model):
    """The sandboxes that a delegation is for; both keys have to fit."""

    sandboxes: Annotated[list[str], Field(min_length=1, max_length=64)] | None = Field(
        None, description="Names of sandboxes; `*` stands for any text."
    )
    profiles: Annotated[list[str], Field(min_length=1, max_length=64)] | None = Field(
        None, description="Profiles that the sandboxes were added with."
    )


class DelegateItem(Model):
    """A delegation: the changes that may be granted to a single sandbox while the proxy runs."""

    id: str = Field(description="Name of the delegation, unique in the rules; grants and the log show it.")
    to: DelegateTo = Field(description="The sandboxes that it is for.")
    ttl: Size = Field(description="Longest time of a grant: seconds, or text such as `15m`; at most 7 days.")
    may: Annotated[list[Literal["allow", "deny"]], Field(min_length=1, max_length=2)] | None = Field(
        None, description="What may be granted for `hosts`: `allow`, `deny`, or both, which is the default."
    )
    hosts: Annotated[list[str], Field(min_length=1)] | None = Field(
        None, description="Host patterns within which a grant has to stay."
    )
    ports: Annotated[Ports, Field(min_length=1)] | None = Field(
        None, description="HTTPS ports that may be allowed; [443] by default."
    )
    methods: list[str] | None = Field(
        None, description="Methods within which a grant has to stay; all by default."
    )
    paths: list[str] | None = Field(
        None, description="Path patterns within which a grant has to stay; all paths by default."
    )
    profiles: Annotated[list[str], Field(min_length=1)] | None = Field(
        None, description="Profiles that may be chosen for such a sandbox."
    )
