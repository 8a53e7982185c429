"""The variables of the kit as commands for a shell, for a terminal outside of any sandbox.

In a sandbox nothing else is set. A terminal may have variables of another proxy or another bundle, and some
of them go before those of the kit, so they are removed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Final, Literal

ShellKind = Literal["posix", "fish"]
SHELL_KINDS: Final[tuple[ShellKind, ...]] = ("posix", "fish")

MISLEADING_VARIABLES: Final = {
    "ALL_PROXY": "curl and Python, for protocols without a variable of their own",
    "all_proxy": "curl and Python, for protocols without a variable of their own",
    "CARGO_HTTP_PROXY": "cargo, before HTTPS_PROXY",
    "npm_config_proxy": "npm, before HTTP_PROXY",
    "npm_config_https_proxy": "npm, before HTTPS_PROXY",
    "npm_config_noproxy": "npm, before NO_PROXY",
    "PIP_PROXY": "pip, before HTTPS_PROXY",
    "PIP_TRUSTED_HOST": "pip, which then verifies nothing",
    "GIT_PROXY_SSL_CAINFO": "git, for a proxy over TLS",
    "GIT_SSL_CAPATH": "git, beside GIT_SSL_CAINFO",
    "GIT_SSL_NO_VERIFY": "git, which then verifies nothing",
    "NODE_TLS_REJECT_UNAUTHORIZED": "Node, which then verifies nothing",
    "PYTHONHTTPSVERIFY": "older Pythons, which then verify nothing",
}
"""Variables that the kit does not set and that go before it, with their readers."""


def shell_kind(shell: str) -> ShellKind:
    """Return the kind of a shell by its name or path, such as `/usr/bin/fish`."""
    return "fish" if shell.rpartition("/")[2] == "fish" else "posix"


def set_commands(
    variables: Mapping[str, str], proxy: str, kind: ShellKind, password_file: str | None = None
) -> Iterator[str]:
    """Yield the commands that set these variables, and remove those that go before them.

    With a password the commands read its file, and the password is in no command. `proxy` is the address that
    gets it.
    """
    yield f"{_UNSET[kind]} {' '.join(MISLEADING_VARIABLES)};"
    for name, value in variables.items():
        shown = _quoted(value, kind)
        if password_file is not None and value == proxy:
            shown = _with_password(proxy, password_file, kind)
        yield f"set -gx {name} {shown};" if kind == "fish" else f"export {name}={shown};"


def unset_commands(variables: Mapping[str, str], kind: ShellKind) -> Iterator[str]:
    """Yield the command that removes these variables again."""
    yield f"{_UNSET[kind]} {' '.join(variables)};"


_UNSET: Final[Mapping[ShellKind, str]] = {"posix": "unset", "fish": "set -e"}


def _with_password(proxy: str, file: str, kind: ShellKind) -> str:
    scheme, _, rest = proxy.partition("://")
    before, reading, after = (
        _quoted(part, kind) if number != 1 else part
        for number, part in enumerate((f"{scheme}://any:", f"cat {_quoted(file, kind)}", f"@{rest}"))
    )
    return f"{before}({reading}){after}" if kind == "fish" else f'{before}"$({reading})"{after}'


def _quoted(text: str, kind: ShellKind) -> str:
    if kind == "posix":
        return shlex.quote(text)
    # Between single quotes fish knows two escapes and nothing else.
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
