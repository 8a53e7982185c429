"""What all shapes of a rule file share: they take no key that they do not know, and convert nothing."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag


# Strict and closed: a misspelt key or a number for a text must be an error, never ignored or converted.
class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=False)


def by_exact_type(names: dict[type, str]) -> Discriminator:
    """Choose the member of a union by the exact type of a value; any other value is a mistake."""

    def tell(value: object) -> str | None:
        # The exact type: Python counts true as an int, people do not.
        return names.get(type(value))

    return Discriminator(
        tell,
        custom_error_type="union",
        custom_error_message=" or ".join(names.values()),
    )


# Tagged unions make the validator report the expected kinds instead of every failed alternative.
Size = Annotated[
    Annotated[int, Tag("a whole number")] | Annotated[str, Tag("text")],
    by_exact_type({int: "a whole number", str: "text"}),
]
# Zero is no port on the wire, and the kernel would choose another one.
Ports = list[Annotated[int, Field(ge=1, le=65535)]]
