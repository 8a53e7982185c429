"""The stacks that are looked for in an image: how each shows its version, and how each asks for a page.

Both are lines for a POSIX shell. `$URL` is the page, and `$AT` its host and port. They are asked of programs
as they are found, with no option about trust or proxies, since those who use them will give none either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Stack:
    """One way in which programs speak HTTPS."""

    name: str
    version: str
    """Fails where the stack is not there."""
    ask: str
    cure: str
    """What to do where it does not trust."""


_VARIABLES: Final = "keep the variables of the sandbox: `sudo`, `env -i` and login shells drop them"
_OWN: Final = "let no file or variable of the image name another bundle: see docs/clients.md"

STACKS: Final = (
    Stack("curl", "curl --version", 'curl -fsS -o /dev/null "$URL"', _OWN),
    Stack("wget", "wget --version", 'wget -q -O /dev/null "$URL"', _OWN),
    Stack("git", "git --version", 'git ls-remote "$URL.git"', _OWN),
    Stack(
        "openssl",
        "openssl version",
        'printf \'GET /%s HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n\' "$NAME" "$AT" |'
        ' openssl s_client -quiet -verify_return_error -connect "$AT" -servername "${AT%:*}"',
        _VARIABLES,
    ),
    Stack(
        "python urllib",
        "python3 --version",
        """python3 -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1])' "$URL\"""",
        _VARIABLES,
    ),
    Stack(
        "python requests",
        "python3 -c 'import requests; print(requests.__version__)'",
        """python3 -c 'import sys, requests; requests.get(sys.argv[1])' "$URL\"""",
        _VARIABLES,
    ),
    Stack(
        "python httpx",
        "python3 -c 'import httpx; print(httpx.__version__)'",
        """python3 -c 'import sys, httpx; httpx.get(sys.argv[1])' "$URL\"""",
        _VARIABLES,
    ),
    Stack("pip", "python3 -m pip --version", 'python3 -m pip -q download --no-deps -i "$URL/" nothing', _OWN),
    Stack(
        "node",
        "node --version",
        """node -e 'fetch(process.argv[1]).catch((e) => console.error(e.cause || e))' "$URL\"""",
        "set NODE_EXTRA_CA_CERTS as the sandbox does; Node older than 18 has no fetch",
    ),
    Stack("npm", "npm --version", 'npm view nothing --registry "$URL/" --fetch-retries 0', _OWN),
    Stack(
        "java",
        "java -version 2>&1 | grep version",
        "printf '%s' 'class A { public static void main(String[] a) throws Exception {"
        ' new java.net.URL(a[0]).openStream().close(); } }\' >A.java; java A.java "$URL"',
        "leave JAVA_TOOL_OPTIONS as it is; where there is only a JRE, no program could be tried",
    ),
    Stack(
        "go",
        "go version",
        'printf \'package main\\nimport ("net/http"; "os")\\nfunc main() {'
        ' if _, e := http.Get(os.Args[1]); e != nil { panic(e) } }\\n\' >a.go; go run a.go "$URL"',
        _VARIABLES,
    ),
    Stack("cargo", "cargo --version", 'cargo install --index "sparse+$URL/" --root . nothing', _OWN),
    Stack("ruby", "ruby --version", """ruby -ropen-uri -e 'URI.open(ARGV[0]).read' "$URL\"""", _VARIABLES),
    Stack(
        "php",
        "php --version",
        """php -r 'exit(file_get_contents($argv[1]) === false ? 1 : 0);' "$URL\"""",
        "let no `openssl.cafile` stand in a php.ini that is read later than the one of the sandbox",
    ),
    Stack(
        "perl",
        "perl -MHTTP::Tiny -MIO::Socket::SSL -e 'print $HTTP::Tiny::VERSION'",
        """perl -MHTTP::Tiny -e '$r = HTTP::Tiny->new(verify_SSL => 1)->get($ARGV[0]);"""
        """ die $r->{content} if $r->{status} == 599' "$URL\"""",
        _VARIABLES,
    ),
    Stack(
        "apt",
        "apt-get --version",
        '/usr/lib/apt/apt-helper -o Acquire::Retries=0 download-file "$URL" page',
        "let no file in /etc/apt/apt.conf.d name a proxy or a bundle",
    ),
)
