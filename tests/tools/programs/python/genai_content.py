"""Content, whole and streamed, by the SDK as its documentation shows it."""

from __future__ import annotations

import sys

from google import genai  # type: ignore[attr-defined]  # fetched by the tests that need it

client = genai.Client()
sys.stdout.write(f"{client.models.generate_content(model='gemini-3-flash', contents='hello').text}\n")
for chunk in client.models.generate_content_stream(model="gemini-3-flash", contents="hello"):
    sys.stdout.write(chunk.text)
sys.stdout.write("\n")
