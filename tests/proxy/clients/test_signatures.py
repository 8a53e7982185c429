"""A client that signs its requests itself: where nothing is injected, what it signed arrives as it was."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from tests.proxy.clients import cache
from tests.proxy.clients.client import PROGRAMS, Client, printed
from tests.proxy.clients.password_proxy import guarded
from tests.proxy.clients.program import Ran
from tests.proxy.clients.proofs import LARGE
from tests.proxy.clients.scene import unlocked
from tests.proxy.clients.stage import Stage
from tests.proxy.clients.standins.s3 import KEY, KEY_ID, REGION, serve_objects
from tests.proxy.lab.raw_upstream import RawUpstream

PYTHON = cache.PYTHON.folder / "venv/bin/python"
PATH = "/bucket/object"

BOTOCORE = Client(
    name="botocore, boto3",
    family="Python",
    version=printed(PYTHON, "-c", "import botocore; print(botocore.__version__)"),
    variables={"HTTPS_PROXY": "{proxy}", "AWS_CA_BUNDLE": "{bundle}"},
    around={
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": "https://{other}",
    },
    cannot={
        "another": "be given a signature: what is injected takes the place of its own, and is none",
    },
)


@pytest.fixture(autouse=True)
def packages(request: pytest.FixtureRequest) -> None:
    cache.PYTHON.require(request)


async def put_and_get(stage: Stage[RawUpstream], size: int, client: Client = BOTOCORE) -> tuple[Ran, bytes]:
    """Have the client put an object and get it; what came of that, and what should have."""
    content = hashlib.shake_128(b"an object").digest(size)
    (stage.home / "body").write_bytes(content)
    serve_objects(stage.scene.upstream, PATH, content)
    program = PROGRAMS / "python/with_botocore.py"
    ran = await stage.run(client, PYTHON, program, *PATH.split("/")[1:], stage.home / "body")
    return ran, content


@BOTOCORE.proves("signed", "large", "upload")
@pytest.mark.parametrize("size", [1000, LARGE], ids=["small", "large"])
async def test_what_it_signed_arrives_as_it_was(stage: Stage[RawUpstream], size: int) -> None:
    ran, content = await put_and_get(stage, size)
    assert ran.out == content, ran.err
    put, got = stage.scene.stack.exchanges()
    assert [(line["method"], line["status"], line["injected"]) for line in (put, got)] == [
        ("PUT", 200, []),
        ("GET", 200, []),
    ]
    # Frames and checksums of the client's own are around the content.
    assert size < LARGE or LARGE < put["bytes_up"] < LARGE + 1024 * 1024  # type: ignore[operator]


async def test_a_signature_by_another_key_would_be_noticed(stage: Stage[RawUpstream]) -> None:
    other = replace(BOTOCORE, around={**BOTOCORE.around, "AWS_SECRET_ACCESS_KEY": "another"})
    ran, _ = await put_and_get(stage, 1000, other)
    assert ran.status != 0
    assert "SignatureDoesNotMatch" in ran.err


@BOTOCORE.proves("another")
async def test_what_is_injected_takes_the_place_of_a_signature(stage: Stage[RawUpstream]) -> None:
    injected = replace(BOTOCORE, around={**BOTOCORE.around, "AWS_ENDPOINT_URL": "https://{host}"})
    ran, _ = await put_and_get(stage, 1000, injected)
    assert ran.status != 0
    assert "SignatureDoesNotMatch" in ran.err
    unlocked(stage.scene.upstream, PATH)
    (line,) = stage.scene.stack.exchanges()
    assert line["replaced"] is True


@BOTOCORE.proves("password")
async def test_a_password_is_given(stage: Stage[RawUpstream]) -> None:
    wrong, _ = await put_and_get(stage, 1000, await guarded(stage, BOTOCORE, "another-password"))
    assert wrong.status != 0
    assert not stage.scene.upstream.links
    ran, content = await put_and_get(stage, 1000, await guarded(stage, BOTOCORE))
    assert ran.out == content, ran.err


async def test_without_the_certificate_nothing_is_believed(stage: Stage[RawUpstream]) -> None:
    ran, _ = await put_and_get(stage, 1000, replace(BOTOCORE, variables={"HTTPS_PROXY": "{proxy}"}))
    assert ran.status != 0
    assert "certif" in ran.err.lower()
    assert not stage.scene.upstream.requests
