"""What a handle needs beyond a `Runtime`: time limits and previews, which are a fleet's, and an image.

A runtime alone can run sandboxes. What it cannot is said by an error that names the cure, never left out in
silence.
"""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

from egress.fleet.protocol import About
from egress.fleet.terms import FOREVER, Terms
from egress.runtime.errors import SpecError, UnsupportedError
from egress.runtime.protocol import Runtime
from egress.runtime.spec import Info, Spec

HOST: Final = "host"
"""The image of a namespace: this machine's own programs."""


@runtime_checkable
class Bounded(Protocol):
    """The part of a fleet that a handle uses."""

    @property
    def about(self) -> About: ...

    def create(self, spec: Spec, terms: Terms = FOREVER) -> Info: ...

    def expose(self, name: str, port: int) -> str: ...

    def unexpose(self, name: str, port: int) -> None: ...


def make(runtime: Runtime, spec: Spec, terms: Terms) -> Info:
    """Make a sandbox under these terms. Raises `UnsupportedError` where there is nobody to see to them."""
    if isinstance(runtime, Bounded):
        return runtime.create(spec, terms)
    if terms != FOREVER:
        raise _without_fleet("ends sandboxes in time")
    return runtime.create(spec)


def previewing(runtime: Runtime) -> Bounded:
    """Return the fleet that shows ports. Raises `UnsupportedError` where there is none."""
    if isinstance(runtime, Bounded):
        return runtime
    raise _without_fleet("shows ports")


def image_of(runtime: Runtime, image: str | None) -> str:
    """Return the image that was asked for, or the one that is used where none was. Raises `SpecError`."""
    if image is not None:
        return image
    kind = runtime.about.kind if isinstance(runtime, Bounded) else ""
    if kind == "namespace":
        return HOST
    if kind == "docker":
        return _demo()
    raise SpecError("image is missing", "name one: image=...")


def _demo() -> str:
    from egress.runtime.docker.engine import Engine  # noqa: PLC0415 - only where it is needed
    from egress.runtime.docker.images.demo import demo_image  # noqa: PLC0415 - likewise

    engine = Engine()
    try:
        return demo_image(engine)
    finally:
        engine.close()


def _without_fleet(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"nobody {what} here: this is a runtime alone", "put it in a fleet: egress.fleet.Fleet(runtime)"
    )
