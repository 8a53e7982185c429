"""The examples of the guide to the Python handle, played in their order, and what they show."""

from __future__ import annotations

import asyncio
import io
from contextlib import redirect_stdout

from egress.runtime.protocol import Runtime
from egress.sandbox.handle import Sandbox
from scripts.pages import ROOT, blocks

PAGE = ROOT / "docs/guides/sandbox.md"
PYTHON = [block for block in blocks(PAGE) if block.language == "python"]
# Those that need a proxy run in `tests/api_server/test_policy_calls.py`.
EXAMPLES = [block for block in PYTHON if block.words != ("proxy",)]


def play(runtime: Runtime) -> None:
    """Run each example in sandboxes of this runtime, which is the usual one of the process meanwhile."""
    names: dict[str, object] = {}
    shown = io.StringIO()
    with redirect_stdout(shown):
        for number, block in enumerate(EXAMPLES):
            exec(compile(block.text, block.place, "exec"), names)
            if number == 0:
                # Its block has ended it; the examples below go on with one.
                names["sandbox"] = Sandbox.create(name="builder", runtime=runtime)
        main = names["main"]
        assert callable(main)
        asyncio.run(main())
    said = shown.getvalue()
    for expected in ("1 hello\n", "SHOUT\nnow\n", "8000\n", "hello\n0 ", "/project\n", "True True\n"):
        assert expected in said, said
    for expected in (
        "remember ['today.txt'] True",
        "path='notes/new.txt'",
        "xterm-256color",
        "one\ntwo\n",
        "asleep\n",
        "\nkept ",
        "8000 http://8000-builder-",
    ):
        assert expected in said, said
