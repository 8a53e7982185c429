"""The folder of the recipes, as its files are read by tests."""

from __future__ import annotations

from typing import Final

from egress.runtime.docker.images import recipes

FOLDER: Final = recipes.folder()
