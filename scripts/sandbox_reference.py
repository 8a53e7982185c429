"""What docs/reference/sandbox.md shows: the trust kit as it is laid, and the names that may enter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from egress.runtime.environ import NEUTRAL_VARIABLES, PORTABLE_LOCALES, SandboxKind
from egress.runtime.kit.distro_paths import readers_by_file
from egress.runtime.kit.kit import DEFAULT_FOLDER
from egress.runtime.kit.paths import KitPaths
from egress.runtime.kit.variables import (
    ADDING_VARIABLES,
    FILE_VARIABLES,
    PROXY_VARIABLES,
    REPLACING_VARIABLES,
    KitVariable,
    variables,
)
from egress.runtime.proxy_address import ProxyAddress

KIT: Final = KitPaths(DEFAULT_FOLDER)
VALUES: Final = variables(KIT, ProxyAddress("door"))
VARIABLES: Final = (
    ("The way to the door", PROXY_VARIABLES),
    ("Whom to trust, for programs that then trust nobody else", REPLACING_VARIABLES),
    ("Whom to trust besides", ADDING_VARIABLES),
    ("What names a file of settings, or consists of them", FILE_VARIABLES),
)
CONTENTS: Final = {
    KIT.certificate: "the certificate of the sandbox's authority",
    KIT.bundle: "the public roots, and that certificate",
    f"{KIT.hashed}/": "that certificate under the name by which OpenSSL looks for it",
    KIT.trust_store: "the same as the bundle, for Java",
    KIT.wgetrc: "for wget: the bundle",
    KIT.apt: "for apt: the proxy, and the bundle",
    f"{KIT.php}/egress.ini": "for PHP: the bundle",
    KIT.maven: "for a Maven that reads nothing else (`mvn --global-settings`): the proxy",
    KIT.chromium: "the policy of Chromium: the certificate",
    KIT.firefox: "the policy of Firefox: the certificate",
}


def rows() -> Iterator[str]:
    """The page, but for its title."""
    yield from (
        "[Certificates](../guides/certificates.md#in-a-sandbox-the-trust-kit) says what this is for.",
        "",
        "## Variables",
        "",
        "`door` stands for the address of the sandbox's door. What an image says there does not hold.",
    )
    for title, some in VARIABLES:
        yield from ("", f"### {title}", "", "| variable | value | who reads it |", "| --- | --- | --- |")
        yield from map(_variable, some)
    yield from ("", "## Files", "", "All are read-only, and nobody's in the sandbox.", "")
    yield from ("| file | holds |", "| --- | --- |")
    yield from (f"| `{place}` | {what} |" for place, what in CONTENTS.items())
    yield from (
        "",
        "## Mounted besides",
        "",
        "Each is seen at these places, too, whether or not the image has something there.",
        "",
        "| place | file | who reads it there |",
        "| --- | --- | --- |",
    )
    for source, targets in readers_by_file(KIT).items():
        yield from (f"| `{target}` | `{source}` | {who} |" for target, who in targets.items())
    yield from (
        "",
        "## Of your environment",
        "",
        (
            f"{len(NEUTRAL_VARIABLES)} names may enter by themselves, where they are true of the "
            f"sandbox: {_entering()}."
        ),
        "Everything else is asked for with `--env`.",
        "",
        "| name | in a container | in a namespace | why |",
        "| --- | --- | --- | --- |",
    )
    for name, neutral in NEUTRAL_VARIABLES.items():
        kinds = (
            "yes" if kind in neutral.kinds else "no"
            for kind in (SandboxKind.CONTAINER, SandboxKind.NAMESPACE)
        )
        yield f"| `{name}` | {' | '.join(kinds)} | {neutral.why} |"
    yield from (
        "",
        f"Locales that every image has: {_named(sorted(PORTABLE_LOCALES))}. A variable whose value holds a",
        "configured secret does not enter, whatever its name.",
    )


def _variable(variable: KitVariable) -> str:
    words = (f"`{word}`" for word in VALUES[variable.name].split())
    return f"| `{variable.name}` | {' '.join(words)} | {variable.read_by} |"


def _entering() -> str:
    counts = (
        (kind, sum(kind in neutral.kinds for neutral in NEUTRAL_VARIABLES.values())) for kind in SandboxKind
    )
    return ", ".join(f"{count} of them in a {kind}" for kind, count in counts)


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
