"""The buckets of an account, by the library as its documentation shows it."""

from __future__ import annotations

import sys

import boto3  # type: ignore[import-not-found]  # fetched by the tests that need it

sys.stdout.write(f"{boto3.client('s3').list_buckets()['Buckets']}\n")
