"""Load rule files: read, check, join and compile all texts in one go.

`load` takes texts and never opens a file. It returns a policy only if there is no error; otherwise the
findings of *all* files, entries and rules, so that one run shows every mistake. A syntax error ends the
reading of its own file only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from egress.rules.compile import entries, single_rules
from egress.rules.compile import presets as preset_files
from egress.rules.compile.budget_rules import BudgetSections
from egress.rules.compile.canaries import PlantedPlaces, compile_canary
from egress.rules.compile.delegations import check_delegated_profiles, compile_delegation
from egress.rules.compile.injections import check_injections
from egress.rules.compile.lint import lint
from egress.rules.compile.parameters import check_placeholders, compile_parameter
from egress.rules.compile.preset_joining import join_uses
from egress.rules.compile.profiles import compile_profile
from egress.rules.compile.rule_tests import read_rule_test
from egress.rules.compile.secrets import compile_secret
from egress.rules.compile.uses import PresetUse, check_lifted, read_use
from egress.rules.decide.entry import Entry, Mode, NetworkEntry, Rule
from egress.rules.decide.overlay import Delegation
from egress.rules.decide.policy import CanarySpec, ParameterSpec, Policy, Profile, RuleTest, SecretSpec
from egress.rules.language import document as documents
from egress.rules.language.credential_guess import looks_like_credential
from egress.rules.language.delegation_models import DelegateItem
from egress.rules.language.document import Document, MissingValue, Value
from egress.rules.language.hosts import HostError, HostPattern, parse_host_pattern
from egress.rules.language.model import (
    CanaryItem,
    Host,
    Limits,
    Network,
    ParameterItem,
    ProfileItem,
    RuleFile,
    SecretItem,
    TestItem,
    TopDeny,
)
from egress.rules.language.report import DocumentCursor, Report, did_you_mean, quoted
from egress.rules.language.validation import keys_of, validate, validate_sound_keys
from egress.types import Finding, Limit, Place

TOP_DENY_KEY = "deny"
"""The key that top-level deny rules show: `deny#no-pastebin`."""
DELEGATE_KEY = "delegate"


@dataclass(frozen=True, slots=True)
class RuleText:
    """The text of one rule file, and the name that findings show for it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class LoadResult:
    """A policy if there is no error, and all findings in reading order."""

    policy: Policy | None
    findings: tuple[Finding, ...]


def load(
    texts: Sequence[RuleText], presets: Mapping[str, str] | None = None, now: int | None = None
) -> LoadResult:
    """Compile rule files into a policy. `presets` holds the texts of presets by name.

    `now`, in UTC seconds, is only for warnings about expiries.
    """
    loader = _Loader(presets or {})
    for source in texts:
        loader.read(source)
    policy = loader.policy(_digest([*texts, *loader.used_presets()]))
    report = loader.report
    # Lint the sound part even after errors, so that one run shows warnings, too.
    if report.has_errors:
        lint(loader.sound(policy), report, now, is_whole=False)
    else:
        lint(policy, report, now)
    order = {source.name: number for number, source in enumerate(texts)}
    findings = sorted(
        # A preset used twice reports the same finding twice.
        dict.fromkeys(report.findings),
        key=lambda f: (order.get(f.place.file, len(order)), f.place.line, f.place.column),
    )
    return LoadResult(None if report.has_errors else policy, tuple(findings))


def _digest(texts: Sequence[RuleText]) -> str:
    digest = hashlib.sha256()
    # Sorted, because the order of files changes no rule.
    for data in sorted(source.text.encode("utf-8", "surrogatepass") for source in texts):
        # The length in front keeps two files from having the digest of the same text cut elsewhere.
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


@dataclass(slots=True)
class _Gathered:
    """The content of all files, by section, before it is joined."""

    secrets: dict[str, tuple[SecretItem, DocumentCursor]] = field(default_factory=dict)
    preset_secrets: dict[str, tuple[SecretItem, DocumentCursor]] = field(default_factory=dict)
    parts: dict[HostPattern, list[entries.EntryPart]] = field(default_factory=dict)
    unsound: set[str] = field(default_factory=set)
    """Names of secrets and keys of hosts with errors: references to them are not reported."""
    ids: dict[HostPattern, single_rules.RuleIds] = field(default_factory=dict)
    deny: list[Rule] = field(default_factory=list)
    networks: list[NetworkEntry] = field(default_factory=list)
    profiles: dict[str, tuple[ProfileItem, DocumentCursor]] = field(default_factory=dict)
    has_profiles: bool = False
    canaries: dict[str, CanarySpec] = field(default_factory=dict)
    planted: PlantedPlaces = field(default_factory=PlantedPlaces)
    delegations: list[tuple[Delegation, DelegateItem, DocumentCursor]] = field(default_factory=list)
    tests: list[tuple[str | TestItem, DocumentCursor, HostPattern | None]] = field(default_factory=list)
    parameters: dict[str, ParameterSpec] = field(default_factory=dict)
    budgets: BudgetSections = field(default_factory=BudgetSections)
    mode: tuple[Mode, Place] | None = None
    limit: Limit | None = None


class _Loader:
    def __init__(self, preset_texts: Mapping[str, str]) -> None:
        self.report = Report()
        self._preset_texts = preset_texts
        self._presets: dict[str, preset_files.Preset | None] = {}
        self._all = _Gathered()
        self._repeated_uses: set[PresetUse] = set()
        self._deny_ids = single_rules.RuleIds(TOP_DENY_KEY)
        self._delegation_ids = single_rules.RuleIds(DELEGATE_KEY)

    # Reading one file

    def read(self, source: RuleText) -> None:
        document, findings = documents.read(source.name, source.text)
        self.report.findings.extend(findings)
        value = document.value
        at = DocumentCursor(self.report, document)
        if not isinstance(value, dict):
            if not isinstance(value, MissingValue):
                at.error("a rule file must be a mapping", "start with `version: 1`")
            return
        if not value and findings:
            return
        self._check_version(value, at)
        for key, section in value.items():
            here = at / key
            reader = _SECTIONS.get(key)
            if reader is not None:
                reader(self, section, here)
            elif key != "version":
                here.key_error(f"unknown key {quoted(key)}", did_you_mean(key, keys_of(RuleFile, ())))

    def _check_version(self, value: dict[str, Value], at: DocumentCursor) -> None:
        version = value.get("version")
        if "version" not in value:
            at.error("the key `version` is missing", "start the file with `version: 1`")
        elif isinstance(version, MissingValue):
            return
        elif type(version) is not int or version != 1:
            (at / "version").error("the version must be 1", "write `version: 1`")

    def _mapping(self, section: Value, at: DocumentCursor) -> dict[str, Value]:
        if isinstance(section, dict):
            return section
        if not isinstance(section, MissingValue):
            at.error("this must be a mapping", "write names on the left, their contents below")
        return {}

    def _list(self, section: Value, at: DocumentCursor) -> list[Value]:
        if isinstance(section, list):
            return section
        if not isinstance(section, MissingValue):
            at.error("this must be a list", "begin each item with `- `")
        return []

    def read_secrets(self, section: Value, at: DocumentCursor) -> None:
        for name, value in self._mapping(section, at).items():
            model = validate(SecretItem, value, at / name)
            if model is None:
                self._all.unsound.add(name)
                continue
            # Two definitions could bind one name to two values, so neither is preferred.
            if name in self._all.secrets:
                self._conflict("secret", name, at / name, self._all.secrets[name][1].key_place)
            else:
                self._all.secrets[name] = (model, at / name)

    def read_canaries(self, section: Value, at: DocumentCursor) -> None:
        for name, value in self._mapping(section, at).items():
            model = validate(CanaryItem, value, at / name)
            if model is None:
                continue
            if name in self._all.canaries:
                self._conflict("canary", name, at / name, self._all.canaries[name].place)
            else:
                made = self._all.canaries[name] = compile_canary(name, model, at / name)
                self._all.planted.claim(made, at / name)

    def read_hosts(self, section: Value, at: DocumentCursor) -> None:
        for key, value in self._mapping(section, at).items():
            self._read_host(key, value, at / key, None)

    def _read_host(self, key: str, value: Value, at: DocumentCursor, use: PresetUse | None) -> None:
        errors = self.report.error_count
        self._read_sound_host(key, value, at, use)
        if self.report.error_count > errors:
            self._all.unsound.add(key)

    def _read_sound_host(self, key: str, value: Value, at: DocumentCursor, use: PresetUse | None) -> None:
        try:
            host = parse_host_pattern(key)
        except HostError as error:
            at.key_error(f"{quoted(key)} is not a host: {error.message}", error.hint)
            return
        if looks_like_credential(key):
            at.key_error("this key looks like a credential (not shown)", "a key is the name of a host")
            return
        model = validate(Host, value, at)
        if model is None:
            self._all.unsound.add(key)
            # Still read the sound keys: one mistake of type must not hide the others.
            rest = validate_sound_keys(Host, value)
            if rest is not None:
                entries.read_part(key, rest, host, at, single_rules.RuleIds(key), use=use)
            return
        # Keyed by pattern, so that two spellings of a host are one entry.
        parts = self._all.parts.setdefault(host, [])
        for other in parts:
            if (other.use.name if other.use else "") == (use.name if use else ""):
                self._repeated(use, other.use, key, at, other.at.key_place)
                return
        shared = self._all.ids.setdefault(host, single_rules.RuleIds(key))
        ids = single_rules.RuleIds(key, f"{use.name}-" if use else "", shared.seen)
        parts.append(entries.read_part(key, model, host, at, ids, use=use))
        for number, test in enumerate(model.tests or ()):
            self._all.tests.append((test, at / "tests" / number, host))

    def read_deny(self, section: Value, at: DocumentCursor) -> None:
        for number, value in enumerate(self._list(section, at)):
            model = validate(TopDeny, value, at / number)
            if model is not None:
                self._all.deny.append(single_rules.deny_rule(model, at / number, self._deny_ids))

    def read_networks(self, section: Value, at: DocumentCursor) -> None:
        for number, value in enumerate(self._list(section, at)):
            model = validate(Network, value, at / number)
            if model is None:
                continue
            item = entries.network_entry(model, at / number, self.report)
            if item is None:
                continue
            for other in self._all.networks:
                if other.network == item.network:
                    self._conflict("network", model.cidr, at / number, other.entry.place)
            self._all.networks.append(item)

    def read_profiles(self, section: Value, at: DocumentCursor) -> None:
        # An empty section counts, too: read as no profiles it would give every sandbox all rules.
        self._all.has_profiles = True
        for name, value in self._mapping(section, at).items():
            model = validate(ProfileItem, value, at / name)
            if model is None:
                continue
            if name in self._all.profiles:
                self._conflict("profile", name, at / name, self._all.profiles[name][1].key_place)
            else:
                self._all.profiles[name] = (model, at / name)

    def read_delegate(self, section: Value, at: DocumentCursor) -> None:
        for number, value in enumerate(self._list(section, at)):
            here = at / number
            model = validate(DelegateItem, value, here)
            if model is not None:
                made = compile_delegation(model, here, self._delegation_ids)
                self._all.delegations.append((made, model, here))

    def read_parameters(self, section: Value, at: DocumentCursor) -> None:
        for name, value in self._mapping(section, at).items():
            model = validate(ParameterItem, value, at / name)
            made = None if model is None else compile_parameter(name, model, at / name)
            # Compared without case: two names that differ in nothing else would be taken for each other.
            other = self._all.parameters.get(name.lower())
            if other is not None:
                self._conflict("parameter", name, at / name, other.place)
            elif made is None:
                self._all.unsound.add(name)
            else:
                self._all.parameters[name.lower()] = made

    def read_budgets(self, section: Value, at: DocumentCursor) -> None:
        for name, value in self._mapping(section, at).items():
            self._all.budgets.read_budget(name, value, at / name)

    def read_prices(self, section: Value, at: DocumentCursor) -> None:
        self._all.budgets.read_prices(section, at)

    def read_mode(self, section: Value, at: DocumentCursor) -> None:
        if isinstance(section, MissingValue):
            return
        if section not in ("enforce", "observe"):
            at.error(
                "`mode` must be `enforce` or `observe`", did_you_mean(str(section), ("enforce", "observe"))
            )
        elif self._all.mode is not None:
            self._once("mode", at, self._all.mode[1])
        else:
            self._all.mode = ("observe" if section == "observe" else "enforce", at.place)

    def read_limits(self, section: Value, at: DocumentCursor) -> None:
        model = validate(Limits, section, at)
        if self._all.limit is not None:
            self._once("limits", at, self._all.limit.place)
        elif model is not None:
            self._all.limit = single_rules.limit_of(model, at)

    def read_tests(self, section: Value, at: DocumentCursor) -> None:
        for number, value in enumerate(self._list(section, at)):
            here = at / number
            if isinstance(value, str):
                self._all.tests.append((value, here, None))
            elif (model := validate(TestItem, value, here)) is not None:
                self._all.tests.append((model, here, None))

    def read_use(self, section: Value, at: DocumentCursor) -> None:
        for number, value in enumerate(self._list(section, at)):
            use = read_use(value, at / number, self._preset_texts)
            if use is not None:
                self._use(use)

    def _use(self, use: PresetUse) -> None:
        name = use.preset
        if name not in self._presets:
            self._presets[name] = preset_files.read(name, self._preset_texts[name], self.report)
        preset = self._presets[name]
        expanded = preset_files.expand(preset, use.arguments, use.at) if preset is not None else None
        if expanded is not None:
            self._read_expanded(use, expanded)
            check_lifted(use, expanded)

    def _read_expanded(self, use: PresetUse, document: Document) -> None:
        at = DocumentCursor(self.report, document)
        value = document.value if isinstance(document.value, dict) else {}
        for secret, item in self._mapping(value.get("secrets", {}), at).items():
            model = validate(SecretItem, item, at / "secrets" / secret)
            if model is not None:
                self._all.preset_secrets.setdefault(secret, (model, at / "secrets" / secret))
        for key, item in self._mapping(value.get("hosts", {}), at).items():
            self._read_host(key, item, at / "hosts" / key, use)

    def _repeated(
        self, use: PresetUse | None, other: PresetUse | None, key: str, at: DocumentCursor, first: Place
    ) -> None:
        if use is None:
            self._conflict("host", key, at, first)
        elif other is use:
            message = f"the preset {use.preset} describes {quoted(key)} twice (first at {first})"
            at.key_error(message, "give each of its parameters its own host")
        elif other is not None and use not in self._repeated_uses:
            # Said once, not for each host of the preset.
            self._repeated_uses.add(use)
            use.at.error(
                f"two uses of presets for {quoted(key)} have the name {quoted(use.name)} "
                f"(the other is at {other.at.place})",
                f"name this one: `as: {use.name}-2`; its rules are then called {use.name}-2-…",
            )

    def _conflict(self, kind: str, name: str, at: DocumentCursor, first: Place) -> None:
        at.key_error(f"duplicate {kind} {quoted(name)} (first at {first})", "keep one of them")

    def _once(self, key: str, at: DocumentCursor, first: Place) -> None:
        at.key_error(f"`{key}` is set twice (first at {first})", "keep one of them")

    def used_presets(self) -> list[RuleText]:
        """Return the texts of the presets in use: they are rules, too."""
        return [RuleText(f"preset {name}", self._preset_texts[name]) for name in sorted(self._presets)]

    # Joining

    def policy(self, digest: str) -> Policy:
        secrets = self._secrets()
        hosts = {host: self._assembled(host) for host, parts in self._all.parts.items() if parts}
        # Entries with errors are noted, so that lint and profiles report no follow-up findings about them.
        for entry in hosts.values():
            errors = self.report.error_count
            check_injections(entry, secrets, self._all.unsound, self.report)
            if self.report.error_count > errors:
                self._all.unsound.add(entry.key)
        # The longest prefix decides, as in routing.
        networks = sorted(self._all.networks, key=lambda item: -item.network.prefixlen)
        by_key = {entry.key: entry for entry in [*hosts.values(), *(item.entry for item in networks)]}
        profiles = self._profiles(by_key)
        parameters = {spec.name: spec for spec in self._all.parameters.values()}
        check_placeholders(by_key.values(), parameters, self._all.unsound, self.report)
        self._all.budgets.check_names(by_key.values(), self.report)
        for _, model, at in self._all.delegations:
            check_delegated_profiles(model, profiles, at)
        return Policy(
            entries=hosts,
            networks=tuple(networks),
            deny=tuple(self._all.deny),
            secrets=secrets,
            canaries=tuple(self._all.canaries.values()),
            profiles=profiles,
            mode=self._all.mode[0] if self._all.mode else "enforce",
            limit=self._all.limit,
            cases=self._cases(hosts),
            delegations=tuple(made for made, _, _ in self._all.delegations),
            parameters=parameters,
            budgets=self._all.budgets.budgets,
            prices=self._all.budgets.prices,
            digest=digest,
        )

    def _secrets(self) -> dict[str, SecretSpec]:
        # A preset's secret is a default; a secret of the same name in a file replaces it completely.
        items = self._all.preset_secrets | self._all.secrets
        return {name: compile_secret(name, model, at) for name, (model, at) in items.items()}

    def _assembled(self, host: HostPattern) -> Entry:
        parts = sorted(self._all.parts[host], key=lambda part: part.use is None)
        join_uses(parts)
        return entries.assemble_entry(parts, self.report)

    def _profiles(self, by_key: Mapping[str, Entry]) -> dict[str, Profile] | None:
        if not self._all.has_profiles:
            return None
        return {
            name: compile_profile(name, model, by_key, self._all.unsound, at)
            for name, (model, at) in self._all.profiles.items()
        }

    def sound(self, policy: Policy) -> Policy:
        """Return the part of the policy without errors, so that it can be linted."""
        kept = {host: entry for host, entry in policy.entries.items() if entry.key not in self._all.unsound}
        return replace(policy, entries=kept)

    def _cases(self, hosts: Mapping[HostPattern, Entry]) -> tuple[RuleTest, ...]:
        cases = []
        for item, at, host in self._all.tests:
            entry = hosts.get(host) if host is not None else None
            case = read_rule_test(item, at, entry.key if entry else None, _base_url(entry) if entry else None)
            if case is not None:
                self._check_profile(case, at)
                cases.append(case)
        return tuple(cases)

    def _check_profile(self, case: RuleTest, at: DocumentCursor) -> None:
        if case.profile is not None and self._all.has_profiles and case.profile not in self._all.profiles:
            (at / "profile").error(
                f"unknown profile {quoted(case.profile)}", did_you_mean(case.profile, self._all.profiles)
            )


def _base_url(entry: Entry) -> str | None:
    """Return the URL that bare paths in an entry's tests are added to."""
    if entry.pattern is None or entry.pattern.stars:
        return None
    host = entry.pattern.suffix
    if 443 in entry.ports:
        return f"https://{host}"
    if entry.ports:
        return f"https://{host}:{min(entry.ports)}"
    port = min(entry.clear_ports, default=80)
    return f"http://{host}" if port == 80 else f"http://{host}:{port}"


_SECTIONS: dict[str, Callable[[_Loader, Value, DocumentCursor], None]] = {
    "secrets": _Loader.read_secrets,
    "canaries": _Loader.read_canaries,
    "hosts": _Loader.read_hosts,
    "deny": _Loader.read_deny,
    "networks": _Loader.read_networks,
    "profiles": _Loader.read_profiles,
    "delegate": _Loader.read_delegate,
    "parameters": _Loader.read_parameters,
    "mode": _Loader.read_mode,
    "limits": _Loader.read_limits,
    "budgets": _Loader.read_budgets,
    "prices": _Loader.read_prices,
    "tests": _Loader.read_tests,
    "use": _Loader.read_use,
}
