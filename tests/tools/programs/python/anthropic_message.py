"""A message, whole and streamed, by the SDK as its documentation shows it."""

from __future__ import annotations

import sys

import anthropic  # type: ignore[import-not-found]  # fetched by the tests that need it

client = anthropic.Anthropic()
asked = {"model": "claude-sonnet-5", "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}
sys.stdout.write(f"{client.messages.create(**asked).content[0].text}\n")
with client.messages.stream(**asked) as stream:
    for text in stream.text_stream:
        sys.stdout.write(text)
sys.stdout.write("\n")
