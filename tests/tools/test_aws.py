"""The library and the command line of AWS: a key cannot be injected into a signature, and they say so."""

from __future__ import annotations

from typing import Final

import pytest

from tests.tools.conftest import LabMaker, everywhere
from tests.tools.fetched import HERE, PROGRAMS, PYTHON, PYTHON_PROGRAM
from tests.tools.tool import Tool, pinned
from tests.tools.vendor_server import VendorCall

FAMILY: Final = "Clouds"
RULES: Final = "a `deny` with a [reason](guides/clients.md#aws)"
REASON: Final = "the reason for a denial"
SIGNED: Final = "requests with a key"
CANNOT: Final = {
    SIGNED: "Egress cannot sign requests (SigV4) yet: every request is denied, and the tool prints why"
}
DUMMIES: Final = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
DENY: Final = """deny:
  - id: unsigned
    hosts: ["**.amazonaws.com"]
    paths: ["/**"]
    reason: "Egress cannot sign requests for AWS (SigV4) yet."
"""
HOST: Final = "s3.eu-west-1.amazonaws.com"
SAID: Final = "Egress: A rule denies this request. Egress cannot sign requests for AWS (SigV4) yet"
BUCKETS: Final = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListAllMyBucketsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Buckets><Bucket>
<Name>of-the-stand-in</Name><CreationDate>2026-01-01T00:00:00.000Z</CreationDate></Bucket></Buckets>
<Owner><ID>1</ID></Owner></ListAllMyBucketsResult>"""

BOTO3 = Tool(
    "boto3",
    FAMILY,
    pinned(HERE / "requirements.lock", "boto3"),
    rules=RULES,
    sets={**DUMMIES, "AWS_DEFAULT_REGION": "eu-west-1"},
    cannot=CANNOT,
)
AWS_CLI = Tool(
    "AWS CLI",
    FAMILY,
    pinned(HERE / "requirements.lock", "awscli"),
    rules=RULES,
    sets={**DUMMIES, "AWS_DEFAULT_REGION": "eu-west-1"},
    cannot=CANNOT,
)


def buckets(call: VendorCall) -> None:
    """A stand-in of S3 that lets everybody in."""
    call.reply(BUCKETS, "application/xml")


def is_refused(make_lab: LabMaker, tool: Tool, *command: str) -> None:
    """The tool prints why, at once, and nothing has arrived."""
    lab = make_lab({HOST: buckets}, DENY, {}, PYTHON)
    (lab.workspace / "buckets.py").write_bytes((PROGRAMS / "python/boto3_buckets.py").read_bytes())
    ran = lab.run(PYTHON_PROGRAM, *command, env=tool.sets)
    assert ran.status != 0
    assert SAID in ran.err, ran.said
    assert "egress log suggest " in ran.err
    assert not lab.server.calls, lab.told()
    # The SDKs repeat what may pass; this is final.
    assert [line["code"] for line in lab.record()] == ["rule.denied"]


@BOTO3.proves(REASON, SIGNED)
@everywhere()
@pytest.mark.timeout(400)
def test_boto3_prints_why_it_is_denied(make_lab: LabMaker) -> None:
    is_refused(make_lab, BOTO3, "buckets.py")


@AWS_CLI.proves(REASON, SIGNED)
@everywhere()
@pytest.mark.timeout(400)
@pytest.mark.parametrize("words", ["s3 ls", "sts get-caller-identity", "dynamodb list-tables"])
def test_the_aws_cli_prints_why_it_is_denied(make_lab: LabMaker, words: str) -> None:
    """By each protocol of AWS: XML, queries, JSON."""
    is_refused(make_lab, AWS_CLI, "-m", "awscli", *words.split())


@everywhere()
@pytest.mark.timeout(400)
def test_without_the_deny_a_request_passes_with_its_useless_signature(make_lab: LabMaker) -> None:
    """The control: it is the rule that denies, and not the way."""
    lab = make_lab({HOST: buckets}, "", {}, PYTHON)
    ran = lab.run(PYTHON_PROGRAM, "-m", "awscli", "s3", "ls", env=AWS_CLI.sets)
    assert (ran.status, ran.out.split()[-1:]) == (0, ["of-the-stand-in"]), ran.said
    (call,) = lab.calls(HOST)
    assert call.header("authorization").startswith("AWS4-HMAC-SHA256 Credential=none/")
