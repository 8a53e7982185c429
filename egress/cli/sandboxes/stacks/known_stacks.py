"""HTTPS clients that are tested in an image: how each prints its version and requests a page.

Both are lines for a POSIX shell. `$URL` is the page, and `$AT` its host and port. Programs run without
options about trust or proxies, as their users will run them. A client for pages prints the page; a client for
an index, a repository or a list reports that it is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Stack:
    """A client, or library, that speaks HTTPS."""

    name: str
    version: str
    """Fails if the stack is not installed."""
    ask: str
    cure: str
    """The cure if it does not trust the proxy."""


_VARIABLES: Final = "keep the variables of the sandbox: `sudo`, `env -i` and login shells drop them"
_OWN: Final = "let no file or variable of the image name another bundle: see docs/clients.md"

_CHROMIUM: Final = 'command -v chromium >/dev/null && PATH="/usr/lib/chromium:$PATH" chromium'
"""The program itself on Debian: the wrapper in the search path needs files of a whole system."""
_PHP_CURL: Final = 'extension_loaded("curl") || dl("curl") || exit(1);'
"""Loads the extension if no settings file does: sandboxes of this machine's programs have none."""
_FIREFOX: Final = 'timeout 60 "$(command -v firefox || command -v firefox-esr)"'
"""With a timeout: Firefox waits for ever if it does not trust."""

# Ordered from the most common client to the rarest; the table is printed in this order.
STACKS: Final = (
    Stack("curl", "curl --version", 'curl -fsS "$URL"', _OWN),
    Stack("wget", "wget --version", 'wget -q -O - "$URL"', _OWN),
    Stack("git", "git --version", 'git ls-remote "$URL.git"', _OWN),
    Stack(
        "openssl",
        # s_client has no HTTP, so the request is written by hand.
        "openssl version",
        'printf \'GET /%s HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n\' "$NAME" "$AT" |'
        ' openssl s_client -quiet -verify_return_error -connect "$AT" -servername "${AT%:*}"',
        _VARIABLES,
    ),
    Stack(
        "python urllib",
        "python3 --version",
        """python3 -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read())' "$URL\"""",
        _VARIABLES,
    ),
    Stack(
        "python requests",
        "python3 -c 'import requests; print(requests.__version__)'",
        """python3 -c 'import sys, requests; print(requests.get(sys.argv[1]).text)' "$URL\"""",
        _VARIABLES,
    ),
    Stack(
        "python httpx",
        "python3 -c 'import httpx; print(httpx.__version__)'",
        """python3 -c 'import sys, httpx; print(httpx.get(sys.argv[1]).text)' "$URL\"""",
        _VARIABLES,
    ),
    # Index clients ask for a package that does not exist: reaching the server is the result.
    Stack("pip", "python3 -m pip --version", 'python3 -m pip -q download --no-deps -i "$URL/" nothing', _OWN),
    Stack("uv", "uv --version", 'uv pip install --target . --default-index "$URL/" nothing', _VARIABLES),
    Stack(
        "node",
        "node --version",
        """node -e 'fetch(process.argv[1]).then((page) => page.text()).then(console.log,"""
        """ (e) => console.error(e.cause || e))' "$URL\"""",
        "set NODE_EXTRA_CA_CERTS as the sandbox does; Node older than 18 has no fetch",
    ),
    Stack("npm", "npm --version", 'npm view nothing --registry "$URL/" --fetch-retries 0', _OWN),
    Stack(
        "deno",
        "deno --version",
        """deno eval 'console.log(await (await fetch(Deno.args[0])).text())' "$URL\"""",
        "set DENO_CERT as the sandbox does",
    ),
    Stack(
        "java",
        "java -version 2>&1 | grep version",
        "printf '%s' 'class A { public static void main(String[] a) throws Exception {"
        ' new java.net.URL(a[0]).openStream().transferTo(System.out); } }\' >A.java; java A.java "$URL"',
        # Single-file programs need a JDK; a JRE alone cannot compile one.
        "leave JAVA_TOOL_OPTIONS as it is; where there is only a JRE, no program could be tried",
    ),
    Stack(
        "go",
        "go version",
        'printf \'package main\\nimport ("io"; "net/http"; "os")\\nfunc main() {'
        " r, e := http.Get(os.Args[1]); if e != nil { panic(e) }; io.Copy(os.Stdout, r.Body) }\\n' >a.go;"
        ' go run a.go "$URL"',
        _VARIABLES,
    ),
    Stack("cargo", "cargo --version", 'cargo install --index "sparse+$URL/" --root . nothing', _OWN),
    Stack(
        "ruby", "ruby --version", """ruby -ropen-uri -e 'puts URI.open(ARGV[0]).read' "$URL\"""", _VARIABLES
    ),
    Stack(
        "php",
        "php --version",
        """php -r 'exit(readfile($argv[1]) === false ? 1 : 0);' "$URL\"""",
        "let no `openssl.cafile` stand in a php.ini that is read later than the one of the sandbox",
    ),
    Stack(
        "php curl",
        f"""php -r '{_PHP_CURL} echo curl_version()["version"];'""",
        f"""php -r '{_PHP_CURL} $c = curl_init($argv[1]); curl_exec($c) || fwrite(STDERR, curl_error($c));'"""
        ' "$URL"',
        "let no `curl.cainfo` stand in a php.ini that is read later than the one of the sandbox",
    ),
    Stack(
        "perl",
        "perl -MHTTP::Tiny -MIO::Socket::SSL -e 'print $HTTP::Tiny::VERSION'",
        """perl -MHTTP::Tiny -e '$r = HTTP::Tiny->new(verify_SSL => 1)->get($ARGV[0]);"""
        """ die $r->{content} if $r->{status} == 599; print $r->{content}' "$URL\"""",
        _VARIABLES,
    ),
    Stack(
        "perl LWP",
        "perl -MLWP::UserAgent -MLWP::Protocol::https -e 'print $LWP::VERSION'",
        """perl -MLWP::UserAgent -e '$r = LWP::UserAgent->new->get($ARGV[0]);"""
        """ die $r->status_line if $r->is_error; print $r->content' "$URL\"""",
        _VARIABLES,
    ),
    Stack(
        "apt",
        "apt-get --version",
        '/usr/lib/apt/apt-helper -o Acquire::Retries=0 download-file "$URL" page && cat page',
        "let no file in /etc/apt/apt.conf.d name a proxy or a bundle",
    ),
    Stack(
        "aws",
        "aws --version",
        'AWS_MAX_ATTEMPTS=1 aws s3api list-buckets --no-sign-request --region here --endpoint-url "$URL"',
        "let no `ca_bundle` stand in ~/.aws/config",
    ),
    Stack(
        "gcloud",
        "gcloud --version",
        "CLOUDSDK_AUTH_ACCESS_TOKEN=none CLOUDSDK_CORE_PROJECT=none"
        ' CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE="$URL/" gcloud storage buckets list',
        "let no `core/custom_ca_certs_file` be configured",
    ),
    Stack(
        "chromium",
        f"{_CHROMIUM} --version",
        f'{_CHROMIUM} --headless --no-sandbox --disable-gpu --user-data-dir="$PWD" --dump-dom "$URL"',
        "leave the policy of the sandbox where it is; versions that do not know it want `certutil`:"
        " see docs/guides/certificates.md",
    ),
    Stack(
        "firefox",
        f"{_FIREFOX} --version",
        f'{_FIREFOX} --headless --no-remote --profile "$PWD" --screenshot "$PWD/page.png" "$URL"',
        "leave the policy of the sandbox where it is: see docs/guides/certificates.md",
    ),
)
