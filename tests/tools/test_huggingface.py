"""The Hugging Face hub: a model is downloaded with a token that the sandbox does not have."""

from __future__ import annotations

from typing import Final

import pytest

from tests.tools.conftest import LabMaker, everywhere
from tests.tools.fetched import HERE, PROGRAMS, PYTHON, PYTHON_PROGRAM
from tests.tools.standins import hub_api
from tests.tools.tool import Tool, pinned

TOKEN: Final = "hf_realtoken0123456789abcdefghij"

HUB = Tool(
    "huggingface_hub",
    "Models and data",
    pinned(HERE / "requirements.lock", "huggingface-hub"),
    rules="`use: [{huggingface: {read: [...]}}]`",
)


@HUB.proves("who am I", "a model, with a large file")
@everywhere()
@pytest.mark.timeout(400)
def test_huggingface_hub_downloads_a_model(make_lab: LabMaker) -> None:
    vendors = {hub_api.HOST: hub_api.HubApi(TOKEN), hub_api.STORE: hub_api.store}
    lab = make_lab(vendors, f"use: [huggingface: {{read: [{hub_api.MODEL}]}}]", {"HF_TOKEN": TOKEN}, PYTHON)
    (lab.workspace / "hub_download.py").write_bytes((PROGRAMS / "python/hub_download.py").read_bytes())
    ran = lab.run(PYTHON_PROGRAM, "hub_download.py")
    assert ran.status == 0, ran.said + lab.told()
    assert ran.out.splitlines() == [hub_api.LOGIN, "['config.json', 'model.safetensors']"]
    assert (lab.workspace / "model/config.json").read_bytes() == hub_api.SMALL
    assert (lab.workspace / "model/model.safetensors").read_bytes() == hub_api.LARGE
    assert lab.calls(hub_api.STORE)
