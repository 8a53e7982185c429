"""What tests of fleets share: an engine and an image, as the tests of the runtime have them."""

from __future__ import annotations

from tests.runtime.conftest import answering, engine, image, made_image
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["answering", "engine", "image", "made_image", "namespaces", "refusal"]
