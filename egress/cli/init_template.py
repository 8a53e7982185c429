"""The text of a first rule file, from what `egress init` found.

Pure: from `Found` to text. What was found reaches the text in three forms only: canonical host names,
`owner/name` of repositories, names of variables; each in YAML's own quoting. Reading is opened,
writing stands there as a comment: a file that a program wrote should open no more than its reader sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from egress.cli.config_url import UrlHost
from egress.cli.discover import DOTENV, ENVIRONMENT, GH, ConfiguredHost, DiscoveredSetup, TokenSource
from egress.cli.render import printable
from egress.rules.compile.policy_writer import Fields, flow

SCHEMA_LINE = "# yaml-language-server: $schema=./hosts.schema.json\n"
_GITHUB, _GITLAB = "github.com", "gitlab.com"
_HEAD = """\
# What a sandbox may reach, and which credential is written into its requests on the way out.
# What is not written here is denied. A secret is named here; its value never stands in this file.
#
# `egress init` wrote this from what it found on this machine. From now on it is yours. Afterwards:
#   egress check      finds mistakes
#   egress test       runs the tests below
#   egress explain    says what would happen to a request, and which line decides it
version: 1
"""
_EXAMPLE_HOSTS = (
    "docs.example.com: {}                                # a whole host, without any credential",
    '"*.static.example.com": { methods: [GET, HEAD] }    # `*.` is one label, `**.` one or more',
)
_UNCLEAR = "is an address, or a name that only this machine knows"


def text(found: DiscoveredSetup, *, with_schema: bool) -> str:
    """The rule file. `with_schema` when the schema stands, or will stand, beside it."""
    sections = [
        _HEAD,
        "".join(f"{line}\n" for line in _secrets(found)),
        "".join(f"{line}\n" for line in _use(found)),
        "".join(f"{line}\n" for line in _hosts(found)),
        "".join(f"{line}\n" for line in _tests(found)),
    ]
    return (SCHEMA_LINE if with_schema else "") + "\n".join(section for section in sections if section)


def summary(found: DiscoveredSetup) -> list[str]:
    """What was found, one line each, for the screen."""
    lines = [f"{name}: {_in_words(token)}" for name, token in found.tokens.items()]
    lines += [
        f"{_service(item.host)}: {item.path}, from the git remotes"
        for item in found.repositories
        if _service(item.host)
    ]
    for tool, sites, unclear in (
        ("pip", found.python, found.python_unclear),
        ("npm", found.npm, found.npm_unclear),
    ):
        for where in sites:
            caution = ", as a comment: the file is this folder's" if where.is_from_folder else ""
            lines.append(f"{tool}: {where.site.host}, from {where.told_by}{caution}")
        lines += [f"{tool}: left out what {place} names: it {_UNCLEAR}" for place in unclear]
    return lines


# Secrets --------------------------------------------------------------------------------------


def _secrets(found: DiscoveredSetup) -> Iterator[str]:
    bound = {
        "github": ["api.github.com", _GITHUB],
        "gitlab": [_gitlab_host(found)],
        "anthropic": ["api.anthropic.com"],
        "openai": ["api.openai.com"],
    }
    if found.tokens:
        yield "# Each secret is bound to its hosts: it can go nowhere else, whatever a rule says."
        yield "secrets:"
    for name, token in found.tokens.items():
        yield f"  {name}:"
        yield f"    from: {_source(token)}   # {_told_by(token)}"
        yield f"    hosts: {flow(list(bound[name]))}"
    if found.other_names:
        yield f"# Also named in .env: {', '.join(found.other_names)}."
        yield "# To use one, write a secret for it, bind it to its hosts, and inject it there."


def _source(token: TokenSource) -> str:
    return "{ command: [gh, auth, token] }" if token.told_by == GH else f"env:{token.variable}"


def _told_by(token: TokenSource) -> str:
    return {
        ENVIRONMENT: "set in the environment",
        DOTENV: "named in .env: load that file before you start egress",
        GH: "gh is signed in on this machine",
    }[token.told_by]


def _in_words(token: TokenSource) -> str:
    return _told_by(token) if token.told_by == GH else f"{token.variable}, {_told_by(token)}"


# Presets --------------------------------------------------------------------------------------


def _use(found: DiscoveredSetup) -> Iterator[str]:
    lines = [*_github(found), *_gitlab(found), *_models(found), *_python(found), *_npm(found)]
    is_empty = all(line.lstrip().startswith("#") for line in lines)
    yield "# Ready rules for known services: `egress presets` lists them, `egress rules show` spells out."
    yield "# use:" if is_empty else "use:"
    yield from lines


def _github(found: DiscoveredSetup) -> Iterator[str]:
    paths = [item.path for item in found.repositories if item.host == _GITHUB]
    if not paths and "github" not in found.tokens:
        yield "  # - github                  # set GITHUB_TOKEN, or sign in with `gh auth login`"
        return
    if "github" not in found.tokens:
        yield "  # No token was found: set GITHUB_TOKEN, or the preset's requests are denied for want of it."
    yield from _forge("github", paths, {})


def _gitlab(found: DiscoveredSetup) -> Iterator[str]:
    host = _gitlab_host(found)
    paths = [item.path for item in found.repositories if item.host == host]
    if not paths and "gitlab" not in found.tokens:
        yield "  # - gitlab                  # set GITLAB_TOKEN"
        return
    if "gitlab" not in found.tokens:
        yield "  # No token was found: set GITLAB_TOKEN, or the preset's requests are denied for want of it."
    arguments: Fields = {} if host == _GITLAB else {"host": host}
    if paths:
        arguments["api_read"] = [path.replace("/", "%2F") for path in paths]
    yield from _forge("gitlab", paths, arguments)


def _forge(preset: str, paths: Sequence[str], arguments: Fields) -> Iterator[str]:
    if not paths:
        yield f"  # All that the token can read. To narrow it: - {preset}: {{ read: [owner/name] }}"
        yield f"  - {preset}" if not arguments else f"  - {preset}: {flow(arguments)}"
        return
    yield "  # The git remotes of this folder, for reading. Take the # away to allow pushing as well."
    yield f"  - {preset}:"
    for name, value in arguments.items():
        yield f"      {name}: {flow(value)}"
    yield f"      read: {flow(list(paths))}"
    yield f"      # write: {flow(list(paths))}"


def _models(found: DiscoveredSetup) -> Iterator[str]:
    for name, variable in (("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")):
        if name in found.tokens:
            yield f"  - {name}"
        else:
            yield f"  # - {name:<24}# set {variable}"


def _python(found: DiscoveredSetup) -> Iterator[str]:
    sites = [item for item in found.python if _fits(item, found)]
    hosts = list(dict.fromkeys(item.site.host for item in sites))
    if hosts:
        yield from _told("pip's package index", sites)
        yield "  # Under `files`, add the hosts that its links to packages lead to, if there are others."
        yield "  - python-index:"
        yield f"      index: {flow(hosts[0])}"
        yield f"      files: {flow(list(hosts))}"
        return
    if found.python_unclear:
        yield f"  # What {_places(found.python_unclear)} names is left out:"
        yield f"  # it {_UNCLEAR}."
    elif not found.python:
        yield "  # No index is configured for pip here; `pip config debug` shows where it looks."
    yield "  # - python-index: { index: index.example.com, files: [index.example.com] }"


def _npm(found: DiscoveredSetup) -> Iterator[str]:
    sites = [item for item in found.npm if _fits(item, found)]
    own = [item for item in sites if not item.is_from_folder]
    yield from _told("npm's registry", own) if own else ()
    for item in sites:
        if item.is_from_folder:
            yield f"  # The .npmrc of this folder names {item.site.host}. Take the # away if you trust it."
    hosts = list(dict.fromkeys(item.site.host for item in own or sites))
    if hosts:
        rest = f", files: {flow(list(hosts[1:]))}" if hosts[1:] else ""
        yield f"  {'' if own else '# '}- npm-index: {{ registry: {flow(hosts[0])}{rest} }}"
        return
    if found.npm_unclear:
        yield f"  # What {_places(found.npm_unclear)} names is left out:"
        yield f"  # it {_UNCLEAR}."
    elif not found.npm:
        yield "  # No registry is configured for npm here; `npm config get registry` shows the one it takes."
    yield "  # - npm-index: { registry: index.example.com }"


def _told(what: str, sites: Sequence[ConfiguredHost]) -> Iterator[str]:
    yield f"  # From {_places([item.told_by for item in sites])}: {what}."
    if any(item.site.had_user for item in sites):
        yield "  # A user or token in the URL was left out. If the index asks for one: a secret, and an entry"
        yield "  # below that names the host again with `inject: [{ basic: { user: NAME, secret: NAME } }]`."


def _places(told_by: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(printable(place) for place in told_by))


def _fits(item: ConfiguredHost, found: DiscoveredSetup) -> bool:
    """Whether a preset for an index may take the host: it is https, and no token is injected there."""
    return item.site.is_standard and item.site.host not in _credentialed(found)


def _credentialed(found: DiscoveredSetup) -> set[str]:
    return {"api.github.com", _GITHUB, _gitlab_host(found), "api.anthropic.com", "api.openai.com"}


# Hosts ----------------------------------------------------------------------------------------


def _hosts(found: DiscoveredSetup) -> Iterator[str]:
    entries = list(_unusual_entries(found))
    is_empty = all(line.lstrip().startswith("#") for line in entries)
    yield "# Hosts of your own. `{}` is a whole host; `allow`, `deny` and `inject` say more."
    yield "# hosts:" if is_empty else "hosts:"
    yield from entries
    yield from (f"  # {example}" for example in _EXAMPLE_HOSTS)


def _unusual_entries(found: DiscoveredSetup) -> Iterator[str]:
    """Indexes that the presets do not fit: another port, clear text, or a host that gets a token."""
    by_host: dict[str, list[ConfiguredHost]] = {}
    for item in (*found.python, *found.npm):
        by_host.setdefault(item.site.host, []).append(item)
    for host, items in by_host.items():
        told_by = _places([item.told_by for item in items])
        if host in _credentialed(found):
            yield f"  # {host} is a package index too, says {told_by}. A token is injected there:"
            yield "  # allow just the paths of its packages, in an entry of your own."
        elif not all(item.site.is_standard for item in items):
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
    yield "# `egress test` runs these. Without `inject`, a test also says that nothing is injected."
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
    for item in found.python:
        if _fits(item, found):
            yield f"  - GET https://{item.site.host}/simple/ -> allow"
            yield f"  - PUT https://{item.site.host}/simple/ -> deny"
    yield "  - GET https://somewhere-else.example.com/ -> deny host.unknown"


# Forges ---------------------------------------------------------------------------------------


def _service(host: str) -> str:
    if host == _GITHUB:
        return "github"
    return "gitlab" if host == _GITLAB or host.startswith("gitlab.") else ""


def _gitlab_host(found: DiscoveredSetup) -> str:
    hosts = [item.host for item in found.repositories if _service(item.host) == "gitlab"]
    return hosts[0] if hosts else _GITLAB
