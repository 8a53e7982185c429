"""Who somebody is, and the files of a model, by the library as its documentation shows it."""

from __future__ import annotations

import sys
from pathlib import Path

import huggingface_hub  # type: ignore[import-not-found]  # fetched by the tests that need it

sys.stdout.write(f"{huggingface_hub.whoami()['name']}\n")
folder = huggingface_hub.snapshot_download("acme/tiny", local_dir="model")
sys.stdout.write(f"{sorted(path.name for path in Path(folder).iterdir() if path.is_file())}\n")
