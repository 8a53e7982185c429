"""botocore, on which boto3 and the AWS command line are built: puts FILE as an object and gets another.

with_botocore.py BUCKET NAME FILE
"""

from __future__ import annotations

import sys
from pathlib import Path

from botocore.config import Config  # type: ignore[import-not-found]  # fetched by the tests that need it
from botocore.session import Session  # type: ignore[import-not-found]


def main(bucket: str, name: str, file: str) -> None:
    style = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1})
    client = Session().create_client("s3", config=style)
    with Path(file).open("rb") as body:
        client.put_object(Bucket=bucket, Key=name, Body=body)
    answer = client.get_object(Bucket=bucket, Key=name)
    for part in answer["Body"].iter_chunks():
        sys.stdout.buffer.write(part)


main(*sys.argv[1:])
