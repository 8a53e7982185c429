"""Generate the text of a first rule file from the findings of `egress init`.

Pure: from `DiscoveredSetup` to text. Only canonical host names, `owner/name` of repositories, and names of
variables reach the text, each in YAML's own quoting. Reading is opened, writing is only a comment: a
generated file should open no more than its reader expects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from egress.cli.discover import (
    DOTENV,
    ENVIRONMENT,
    GH,
    VARIABLES,
    ConfiguredHost,
    DiscoveredSetup,
    TokenSource,
)
from egress.cli.render import printable
from egress.cli.url_host import UrlHost
from egress.rules.compile.policy_writer import Fields, flow

SCHEMA_LINE = "# yaml-language-server: $schema=./hosts.schema.json\n"
_GITHUB, _GITLAB = "github.com", "gitlab.com"
_HEAD = """\
# Where sandboxes may connect, and which credential is added to their requests on the way out.
# Everything else is denied. A secret has a name and a source here, never its value.
#
# Written by `egress init` from the setup of this machine; edit it as you like. Next steps:
#   egress check      finds mistakes
#   egress test       runs the tests below
#   egress explain    shows what would happen to a request, and which line decides it
version: 1
"""
_EXAMPLE_HOSTS = (
    "docs.example.com: {}                                # a whole host, without any credential",
    '"*.static.example.com": { methods: [GET, HEAD] }    # `*.` is one label, `**.` one or more',
)
_UNCLEAR = "an IP address or a local-only name"


def text(found: DiscoveredSetup, *, with_schema: bool) -> str:
    """Return the rule file. `with_schema`: the schema is, or will be, in the same folder."""
    sections = [
        _HEAD,
        "".join(f"{line}\n" for line in _secrets(found)),
        "".join(f"{line}\n" for line in _use(found)),
        "".join(f"{line}\n" for line in _hosts(found)),
        "".join(f"{line}\n" for line in _tests(found)),
    ]
    return (SCHEMA_LINE if with_schema else "") + "\n".join(section for section in sections if section)


def summary(found: DiscoveredSetup) -> list[str]:
    """Return the findings, one line each, for the screen."""
    lines = [f"{name}: {_in_words(token)}" for name, token in found.tokens.items()]
    lines += [
        f"{_service(item.host)}: {item.path}, from the git remotes"
        for item in found.repositories
        if _service(item.host)
    ]
    for tool, sites, unclear in (
        ("pip", (*found.python, *found.files.get("pip", ())), found.python_unclear),
        ("npm", (*found.npm, *found.files.get("npm", ())), found.npm_unclear),
        ("cargo", (*found.cargo, *found.files.get("cargo", ())), ()),
        ("go", (*found.go, *found.files.get("go", ())), ()),
        ("apt", found.apt, ()),
    ):
        named: dict[str, ConfiguredHost] = {}
        for item in sites:
            named.setdefault(item.site.host, item)
        for where in named.values():
            caution = ", as a comment: the file is this folder's" if where.is_from_folder else ""
            lines.append(f"{tool}: {where.site.host}, from {where.told_by}{caution}")
        lines += [f"{tool}: skipped the index in {place} ({_UNCLEAR})" for place in unclear]
    return lines


# Secrets --------------------------------------------------------------------------------------


def _secrets(found: DiscoveredSetup) -> Iterator[str]:
    bound = _bound(found)
    if found.tokens:
        yield "# Each secret is bound to its hosts: never sent to any other host, whatever the rules say."
        yield "secrets:"
    for name, token in found.tokens.items():
        yield f"  {name}:"
        yield f"    from: {_source(token)}   # {_told_by(token)}"
        yield f"    hosts: {flow(list(bound[name]))}"
    if found.other_names:
        yield f"# Also named in .env: {', '.join(found.other_names)}."
        yield "# To use one, define a secret for it, bind it to its hosts, and inject it there."


def _source(token: TokenSource) -> str:
    return "{ command: [gh, auth, token] }" if token.told_by == GH else f"env:{token.variable}"


def _told_by(token: TokenSource) -> str:
    return {
        ENVIRONMENT: "set in the environment",
        DOTENV: "named in .env: load that file before you start Egress",
        GH: "gh is signed in on this machine",
    }[token.told_by]


def _in_words(token: TokenSource) -> str:
    return _told_by(token) if token.told_by == GH else f"{token.variable}, {_told_by(token)}"


# Presets --------------------------------------------------------------------------------------


def _use(found: DiscoveredSetup) -> Iterator[str]:
    lines = [*_github(found), *_gitlab(found), *_services(found), *_python(found), *_npm(found)]
    lines += [*_cargo(found), *_go(found), *_apt(found)]
    is_empty = all(line.lstrip().startswith("#") for line in lines)
    yield "# Ready-made rules: `egress presets` lists them, `egress rules show` expands them."
    yield "# use:" if is_empty else "use:"
    yield from lines


def _github(found: DiscoveredSetup) -> Iterator[str]:
    paths = [item.path for item in found.repositories if item.host == _GITHUB]
    if not paths and "github" not in found.tokens:
        yield "  # - github                  # set GITHUB_TOKEN, or sign in with `gh auth login`"
        return
    if "github" not in found.tokens:
        yield "  # No token was found: set GITHUB_TOKEN, or its requests are denied."
    yield from _forge("github", paths, {})


def _gitlab(found: DiscoveredSetup) -> Iterator[str]:
    host = _gitlab_host(found)
    paths = [item.path for item in found.repositories if item.host == host]
    if not paths and "gitlab" not in found.tokens:
        yield "  # - gitlab                  # set GITLAB_TOKEN"
        return
    if "gitlab" not in found.tokens:
        yield "  # No token was found: set GITLAB_TOKEN, or its requests are denied."
    arguments: Fields = {} if host == _GITLAB else {"host": host}
    if paths:
        arguments["api_read"] = [path.replace("/", "%2F") for path in paths]
    yield from _forge("gitlab", paths, arguments)


def _forge(preset: str, paths: Sequence[str], arguments: Fields) -> Iterator[str]:
    if not paths:
        yield f"  # Everything the token can read. To narrow it: - {preset}: {{ read: [owner/name] }}"
        yield f"  - {preset}" if not arguments else f"  - {preset}: {flow(arguments)}"
        return
    yield "  # The git remotes of this folder, read-only. Remove the # for pushes to branches agent/**, too."
    yield f"  - {preset}:"
    for name, value in arguments.items():
        yield f"      {name}: {flow(value)}"
    yield f"      read: {flow(list(paths))}"
    yield f"      # write: {flow(list(paths))}"


def _services(found: DiscoveredSetup) -> Iterator[str]:
    for name in ("anthropic", "openai", "gemini", "copilot", "huggingface"):
        variable = VARIABLES[name][0]
        if name in found.tokens:
            yield f"  - {name}"
        else:
            yield f"  # - {name:<24}# set {variable}"


def _python(found: DiscoveredSetup) -> Iterator[str]:
    sites = [item for item in found.python if _fits(item, found)]
    hosts = list(dict.fromkeys(item.site.host for item in sites))
    if hosts:
        files = _file_hosts("pip", found)
        yield from _told("pip's package index", sites)
        if not files:
            yield "  # Add other hosts that its package links point to under `files`."
        yield "  - python-index:"
        yield f"      index: {flow(hosts[0])}"
        yield f"      files: {flow(list(dict.fromkeys([*hosts, *files])))}"
        return
    if found.python_unclear:
        yield f"  # Skipped the index in {_places(found.python_unclear)} ({_UNCLEAR})."
    elif not found.python:
        yield "  # No index is configured for pip here; `pip config debug` shows its search path."
    yield "  # - python-index: { index: index.example.com, files: [index.example.com] }"


def _npm(found: DiscoveredSetup) -> Iterator[str]:
    sites = [item for item in found.npm if _fits(item, found)]
    own = [item for item in sites if not item.is_from_folder]
    yield from _told("npm's registry", own) if own else ()
    for item in sites:
        if item.is_from_folder:
            yield f"  # The .npmrc of this folder names {item.site.host}. Remove the # if you trust it."
    hosts = list(dict.fromkeys(item.site.host for item in own or sites))
    if hosts:
        files = [host for host in dict.fromkeys([*hosts[1:], *_file_hosts("npm", found)]) if host != hosts[0]]
        rest = f", files: {flow(list(files))}" if files else ""
        yield f"  {'' if own else '# '}- npm-index: {{ registry: {flow(hosts[0])}{rest} }}"
        return
    if found.npm_unclear:
        yield f"  # Skipped the registry in {_places(found.npm_unclear)} ({_UNCLEAR})."
    elif not found.npm:
        yield "  # No registry is configured for npm here; `npm config get registry` shows the current one."
    yield "  # - npm-index: { registry: index.example.com }"


def _cargo(found: DiscoveredSetup) -> Iterator[str]:
    sites = [item for item in found.cargo if _fits(item, found)]
    if not sites:
        return
    index, *others = dict.fromkeys(item.site.host for item in sites)
    yield from _told("cargo's registry", sites)
    files = list(dict.fromkeys([*others, *_file_hosts("cargo", found)])) or [index]
    yield f"  - cargo-index: {{ index: {flow(index)}, files: {flow(list(files))} }}"


def _go(found: DiscoveredSetup) -> Iterator[str]:
    sites = [item for item in found.go if _fits(item, found)]
    if not sites:
        return
    yield from _told("go's module proxy and checksum database", sites)
    proxies = list(dict.fromkeys(item.site.host for item in sites))
    sums = _file_hosts("go", found)
    rest = f", sums: {flow(list(sums))}" if sums else ""
    yield f"  - go-proxy: {{ proxies: {flow(list(proxies))}{rest} }}"


def _apt(found: DiscoveredSetup) -> Iterator[str]:
    sites = [item for item in found.apt if _is_archive(item, found)]
    if not sites:
        return
    yield from _told("apt's archives", sites)
    clear = list(dict.fromkeys(item.site.host for item in sites if item.site.scheme == "http"))
    archives = list(dict.fromkeys(item.site.host for item in sites if item.site.host not in clear))
    given: Fields = {
        name: list(hosts) for name, hosts in (("archives", archives), ("clear_text", clear)) if hosts
    }
    yield f"  - apt-archive: {flow(given)}"


def _is_archive(item: ConfiguredHost, found: DiscoveredSetup) -> bool:
    """Report whether the preset may use the host: an index that others use is not opened for clear text."""
    if (item.site.scheme, item.site.port) != ("http", 80):
        return _fits(item, found)
    return item.site.host not in _credentialed(found)


def _file_hosts(tool: str, found: DiscoveredSetup) -> list[str]:
    """Return the hosts of packages that the index itself named."""
    sites = (item for item in found.files.get(tool, ()) if _fits(item, found))
    return list(dict.fromkeys(item.site.host for item in sites))


def _told(tool: str, sites: Sequence[ConfiguredHost]) -> Iterator[str]:
    yield f"  # From {_places([item.told_by for item in sites])}: {tool}."
    if any(item.site.had_user for item in sites):
        yield "  # A user or token in the URL was skipped. If the index needs it: a secret, and an entry"
        yield "  # below that names the host again with `inject: [{ basic: { user: NAME, secret: NAME } }]`."


def _places(told_by: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(printable(place) for place in told_by))


def _fits(item: ConfiguredHost, found: DiscoveredSetup) -> bool:
    """Report whether an index preset may use the host: it is https, and gets no token."""
    return item.site.is_standard and item.site.host not in _credentialed(found)


def _credentialed(found: DiscoveredSetup) -> set[str]:
    return {host for hosts in _bound(found).values() for host in hosts}


def _bound(found: DiscoveredSetup) -> dict[str, list[str]]:
    """Return the hosts to which the presets bind their secrets."""
    plans = ("", "individual.", "business.", "enterprise.")
    return {
        "github": ["api.github.com", _GITHUB],
        "gitlab": [_gitlab_host(found)],
        "anthropic": ["api.anthropic.com"],
        "openai": ["api.openai.com"],
        "gemini": ["generativelanguage.googleapis.com"],
        "copilot": ["api.github.com", *(f"api.{plan}githubcopilot.com" for plan in plans)],
        "huggingface": ["huggingface.co"],
    }


# Hosts ----------------------------------------------------------------------------------------


def _hosts(found: DiscoveredSetup) -> Iterator[str]:
    entries = list(_unusual_entries(found))
    is_empty = all(line.lstrip().startswith("#") for line in entries)
    yield "# Your own hosts. `{}` allows a whole host; `allow`, `deny` and `inject` refine it."
    yield "# hosts:" if is_empty else "hosts:"
    yield from entries
    yield from (f"  # {example}" for example in _EXAMPLE_HOSTS)


def _unusual_entries(found: DiscoveredSetup) -> Iterator[str]:
    """Yield indexes that presets cannot express: another port, clear text, or a host that gets a token."""
    by_host: dict[str, list[ConfiguredHost]] = {}
    files = (item for items in found.files.values() for item in items)
    for item in (*found.python, *found.npm, *found.cargo, *found.go, *files, *found.apt):
        by_host.setdefault(item.site.host, []).append(item)
    # Archives of apt are usual in clear text: their signatures are checked.
    clear_text = [item for item in found.apt if (item.site.scheme, item.site.port) == ("http", 80)]
    for host, items in by_host.items():
        told_by = _places([item.told_by for item in items])
        if host in _credentialed(found):
            yield f"  # {host} is also a package index, according to {told_by}. It gets a token:"
            yield "  # allow only the paths of its packages, in your own entry."
        elif not all(item.site.is_standard or item in clear_text for item in items):
            mark = "# " if all(item.is_from_folder for item in items) else ""
            ports = _ports([item.site for item in items])
            yield f"  # From {told_by}:"
            yield f"  {mark}{flow(host)}: {{ methods: [GET, HEAD], {ports} }}"


def _ports(sites: Sequence[UrlHost]) -> str:
    clear = sorted({where.port for where in sites if where.scheme == "http"})
    ports = f"ports: {sorted({where.port for where in sites if where.scheme == 'https'})}"
    return f"{ports}, http: {clear}" if clear else ports


# Tests ----------------------------------------------------------------------------------------


def _tests(found: DiscoveredSetup) -> Iterator[str]:
    yield "# `egress test` runs these. Without `inject`, a test also checks that no secret is injected."
    yield "tests:"
    repository = next((item.path for item in found.repositories if item.host == _GITHUB), None)
    if repository is not None or "github" in found.tokens:
        path = repository or "acme/widgets"
        yield f"  - GET https://api.github.com/repos/{path}/issues -> allow, inject github"
        yield f"  - DELETE https://api.github.com/repos/{path} -> deny"
    if "anthropic" in found.tokens:
        yield "  - POST https://api.anthropic.com/v1/messages -> allow, inject anthropic"
    if "openai" in found.tokens:
        yield "  - POST https://api.openai.com/v1/responses -> allow, inject openai"
    if "gitlab" in found.tokens:
        yield f"  - GET https://{_gitlab_host(found)}/api/v4/user -> allow, inject gitlab"
    if "gemini" in found.tokens:
        url = "https://generativelanguage.googleapis.com/v1beta/models"
        yield f"  - GET {url} -> allow, inject gemini"
    if "copilot" in found.tokens:
        yield "  - POST https://api.githubcopilot.com/chat/completions -> allow, inject copilot"
    if "huggingface" in found.tokens:
        yield "  - GET https://huggingface.co/api/whoami-v2 -> allow, inject huggingface"
    # A path for each kind of index: what one of them serves, and a method that none of them needs.
    paths = ((found.python, "simple/"), (found.cargo, "config.json"), (found.go, "example.com/a/@v/list"))
    indexes = {item.site.host: path for sites, path in paths for item in sites if _fits(item, found)}
    for host, path in indexes.items():
        yield f"  - GET https://{host}/{path} -> allow"
        yield f"  - PUT https://{host}/{path} -> deny"
    yield "  - GET https://somewhere-else.example.com/ -> deny host.unknown"


# Forges ---------------------------------------------------------------------------------------


def _service(host: str) -> str:
    if host == _GITHUB:
        return "github"
    return "gitlab" if host == _GITLAB or host.startswith("gitlab.") else ""


def _gitlab_host(found: DiscoveredSetup) -> str:
    hosts = [item.host for item in found.repositories if _service(item.host) == "gitlab"]
    return hosts[0] if hosts else _GITLAB
