"""A response and a completion, whole and streamed, by the SDK as its documentation shows it."""

from __future__ import annotations

import sys

import openai  # type: ignore[import-not-found]  # fetched by the tests that need it

client = openai.OpenAI()
sys.stdout.write(f"{client.responses.create(model='gpt-6', input='hello').output_text}\n")
for event in client.responses.create(model="gpt-6", input="hello", stream=True):
    if event.type == "response.output_text.delta":
        sys.stdout.write(event.delta)
sys.stdout.write("\n")
asked = {"model": "gpt-6", "messages": [{"role": "user", "content": "hello"}]}
sys.stdout.write(f"{client.chat.completions.create(**asked).choices[0].message.content}\n")
for chunk in client.chat.completions.create(**asked, stream=True):
    sys.stdout.write(chunk.choices[0].delta.content or "")
sys.stdout.write("\n")
