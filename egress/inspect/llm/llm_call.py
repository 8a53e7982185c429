"""A call of a language model, as rules and budgets see it."""

from __future__ import annotations

from egress.inspect.llm.usage import LlmApi
from egress.types import value_class


@value_class
class LlmCall:
    """The one item of such a request."""

    api: LlmApi
    models: tuple[str, ...]
    """Every model that the request can reach."""
    max_output: int | None = None
    """Tokens that an answer may have, as the request states them; None if it states nothing."""
    choices: int = 1
    """Answers that are asked for at once."""
    server_tools: tuple[str, ...] = ()
    """Tools that run at the vendor, and other ways by which the vendor fetches something."""
    input_tokens: int = 0
    """An estimate of the tokens that are sent."""
    is_streamed: bool = False
    has_usage: bool = True
    """The answer will state its usage by itself."""
    tier: str = ""
    """The service tier that is asked for."""
    is_signed: bool = False
    """The client has signed the body, so that nothing in it can be changed."""
    is_unmetered: bool = False
    """The answer comes later, on another path: its usage cannot be seen."""

    def __str__(self) -> str:
        output = "" if self.max_output is None else f" max={self.max_output}"
        return f"{' '.join(self.models)}{output}"
