"""The settings of a running proxy: what there is, what each means, and where its value came from.

A setting is given by a flag, else by a variable `EGRESS_…`, else it has its default; no file is read for
it, `.env` least of all. The flags, the table that `egress serve --settings` prints and the reference page
are all made from the one model below. No setting ever holds a secret: those that need one name a file.
"""

from __future__ import annotations

import difflib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Final, Literal, Self, override

from pydantic import Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from egress import environment
from egress.errors import UsageError
from egress.kubernetes.pod_identity import SERVICE_ACCOUNT_PATH
from egress.proxy import setting_texts as texts
from egress.proxy.setting_values import (
    NO_ADDRESS,
    Addresses,
    Collector,
    Count,
    Ipv4,
    ListenAddress,
    Listens,
    MaybeListens,
    MetricsListen,
    Name,
    Networks,
    Overrides,
    Paths,
    Pins,
    PlainName,
    Seconds,
    SettingDisplay,
    SignalList,
    Size,
    setting_error,
)
from egress.telemetry.otlp_endpoint import SIGNALS

VARIABLE_PREFIX = "EGRESS_"
FOREIGN_VARIABLES: Final = frozenset(
    {
        *("EGRESS_RUNTIME", "EGRESS_SNAPSHOT_QUOTA", "EGRESS_SNAPSHOT_COUNT", "EGRESS_SNAPSHOT_AGE"),
        *("EGRESS_KUBERNETES_CONTEXT", "EGRESS_KUBERNETES_NAMESPACE", "EGRESS_KUBERNETES_BLOCKED"),
        *("EGRESS_KUBERNETES_LIFETIME", "EGRESS_KUBERNETES_PULL_SECRET"),
    }
)
"""Variables that mean something elsewhere: the sandboxes that a fleet makes, and their snapshots."""
Origin = Literal["flag", "environment", "default"]


def _runtime_dir(given: Mapping[str, object]) -> Path:
    environ = dict(environment.read_environment())
    if "state_dir" in given:
        environ["EGRESS_STATE_DIR"] = str(given["state_dir"])
    return environment.runtime_dir(environ)


# The model ----------------------------------------------------------------------------------------


class Settings(BaseSettings):
    """Everything about a running proxy that is neither a rule nor a secret."""

    model_config = SettingsConfigDict(
        env_prefix=VARIABLE_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
    )

    rules: Annotated[Paths, SettingDisplay("PATH", "`hosts.yaml` or `hosts.d` in `~/.config/egress`")] = (
        Field(default=(), description=texts.RULES)
    )
    rules_configmap: Annotated[PlainName | None, SettingDisplay("NAME")] = Field(
        default=None, description=texts.RULES_CONFIGMAP
    )
    listen: Annotated[MaybeListens, SettingDisplay("ADDRESS:PORT")] = Field(
        default=(ListenAddress("127.0.0.1", 3128),),
        description="Where clients find the proxy; `none` leaves it to the listeners that are handed over.",
    )
    sandbox: Name = Field(default="default", description="The name of the sandbox behind this listener.")
    profile: Name | None = Field(default=None, description="The profile of the rules that it gets.")
    network: bool = Field(
        default=False, description="Serve every client of the listener: only the sandbox is on its network."
    )
    kubernetes: bool = Field(
        default=False,
        description="Tell sandboxes apart by the pods behind their addresses; runs in a pod itself.",
    )
    service_account: Annotated[Path, SettingDisplay("FOLDER")] = Field(
        default=Path(SERVICE_ACCOUNT_PATH),
        description="With `--kubernetes`: `token`, `ca.crt` and `namespace` for the API server.",
    )
    password_file: Annotated[Path | None, SettingDisplay("FILE")] = Field(
        default=None, description="A file with the password that clients of the proxy have to give."
    )
    transparent: Annotated[Addresses, SettingDisplay("ADDRESS")] = Field(
        default=(),
        description="Where clients land that know no proxy: on every port that the rules name.",
    )
    dns: Annotated[Listens, SettingDisplay("ADDRESS:PORT")] = Field(
        default=(), description="DNS for sandboxes, by UDP and TCP; no query is forwarded."
    )
    dns_answer: Annotated[Ipv4, SettingDisplay("ADDRESS", "the first of `--transparent`")] = Field(
        default=None, description="The address that every allowed name has."
    )
    handover: bool = Field(
        default=False, description="Allow adding sandboxes at run time, with handed-over listeners."
    )
    resolve: Annotated[Overrides, SettingDisplay("NAME=ADDRESS")] = Field(
        default=(), description=texts.RESOLVE
    )
    own_address: Annotated[Networks, SettingDisplay("CIDR")] = Field(
        default=(), description="Addresses of this machine that no interface of it shows; never dialled."
    )
    upstream_ca: Annotated[Paths, SettingDisplay("FILE")] = Field(default=(), description=texts.UPSTREAM_CA)
    pin: Annotated[Pins, SettingDisplay("HOST=PIN")] = Field(
        default=(), description="A public key to hold an upstream to; several for one host are a choice."
    )
    strict_tls_end: bool = Field(
        default=False,
        description="Treat a body as truncated that ends with its connection, without close_notify.",
    )
    denied_tls: Annotated[Literal["page", "refuse"], SettingDisplay("page|refuse")] = Field(
        default="page",
        description="How TLS clients of a denied host are told: a page inside TLS, or 403 to CONNECT.",
    )
    denied_dns: Annotated[Literal["page", "nxdomain"], SettingDisplay("page|nxdomain")] = Field(
        default="page",
        description="How DNS answers for a denied name: with the proxy, or that it does not exist.",
    )
    ca_constrain: bool = Field(
        default=False, description="Limit the authority of the sandbox to the hosts the rules name."
    )
    authority_file: Annotated[Path | None, SettingDisplay("FILE")] = Field(
        default=None, description=texts.AUTHORITY_FILE
    )
    handlers: Annotated[Path | None, SettingDisplay("FILE")] = Field(default=None, description=texts.HANDLERS)
    handlers_in_process: bool = Field(
        default=False,
        description="Call them in the process of the proxy: faster, and only for code that never blocks.",
    )
    state_dir: Annotated[Path, SettingDisplay("FOLDER", "`~/.local/state/egress`")] = Field(
        default_factory=lambda: environment.state_dir(environment.read_environment()),
        description=texts.STATE_DIR,
    )
    runtime_dir: Annotated[
        Path, SettingDisplay("FOLDER", "`$XDG_RUNTIME_DIR/egress`, or `run` below `--state-dir`")
    ] = Field(default_factory=_runtime_dir, description=texts.RUNTIME_DIR)
    audit_dir: Annotated[Path, SettingDisplay("FOLDER", "`audit` in `--state-dir`")] = Field(
        default_factory=lambda given: given["state_dir"] / "audit", description=texts.AUDIT_DIR
    )
    audit_key: Annotated[Path | None, SettingDisplay("FILE", "`audit.key` in `--state-dir`")] = Field(
        default=None, description="A key that signs the audit log."
    )
    run_id: Annotated[PlainName, SettingDisplay("ID", "8 random hex digits")] = Field(
        default_factory=lambda: secrets.token_hex(4), description="How every line of the log names this run."
    )
    audit_rotate: Size = Field(default=64 * 1024**2, description="Begin a new file of the log at this size.")
    audit_keep: Annotated[int, Field(ge=0, le=1_000_000), SettingDisplay("NUMBER")] = Field(
        default=0, description="How many files of the log are kept; 0 for all."
    )
    audit_quota: Size = Field(
        default=0, description="The most that a sandbox may write to the log in a day; 0 for any amount."
    )
    audit_on_full: Annotated[Literal["stop", "drop"], SettingDisplay("stop|drop")] = Field(
        default="stop", description="If the log cannot be written: block all requests, or go on and count."
    )
    metrics: MetricsListen = Field(
        default=None, description="Serve metrics for Prometheus here; a port alone is on 127.0.0.1."
    )
    metrics_token_file: Annotated[Path | None, SettingDisplay("FILE")] = Field(
        default=None, description="A file with the bearer token that a scraper has to send."
    )
    metrics_allow: Annotated[Networks, SettingDisplay("CIDR")] = Field(
        default=(), description="Other machines that may scrape the metrics; never a network of a sandbox."
    )
    otlp: Collector = Field(
        default=None,
        description="Export telemetry to this OpenTelemetry collector, or the one of the environment.",
    )
    otlp_signals: SignalList = Field(default=SIGNALS, description="What is exported.")
    otlp_headers_file: Annotated[Path | None, SettingDisplay("FILE")] = Field(
        default=None, description="A private file with headers for the collector, such as its token."
    )
    otlp_ca: Annotated[Paths, SettingDisplay("FILE")] = Field(
        default=(), description="Certificates of authorities to trust for the collector."
    )
    otlp_rate: Annotated[int, Field(ge=1, le=100_000), SettingDisplay("NUMBER")] = Field(
        default=100, description="The most spans of one sandbox in a second that are exported; and lines."
    )
    otlp_interval: Seconds = Field(default=60, description="How often metrics are exported.")
    connections: Count = Field(default=8192, description="The most client connections at a time.")
    sandbox_connections: Count = Field(
        default=512,
        description="The most client connections of one sandbox at a time; never more than are still free.",
    )
    sandbox_requests: Annotated[int, Field(ge=0, le=16_384), SettingDisplay("NUMBER")] = Field(
        default=0,
        description="The most requests and tunnels of one sandbox at a time; 0: three for each connection.",
    )
    head_timeout: Seconds = Field(default=15, description="Time limit for the head of a request.")
    connect_timeout: Seconds = Field(default=10, description="Time limit for connecting to the upstream.")
    answer_timeout: Seconds = Field(default=300, description="Time limit for the first byte of a response.")
    idle_timeout: Seconds = Field(default=600, description="Time limit for a connection without traffic.")
    ready: MetricsListen = Field(
        default=None,
        description="Tell here by `GET /ready` whether it is ready; a port alone is on 127.0.0.1.",
    )
    replica_lag: Seconds = Field(
        default=30,
        description="With `--kubernetes`: how long it may be ready while another replica knows more.",
    )
    drain: Annotated[Seconds, SettingDisplay("TIME", "`30s`, and `120s` with `--kubernetes`")] = Field(
        default_factory=lambda given: 120 if given["kubernetes"] else 30,
        description="How long requests under way may take when it stops.",
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], SettingDisplay("LEVEL")] = Field(
        default="info", description="The least that is logged: debug, info, warning or error."
    )
    log_format: Annotated[Literal["auto", "text", "json"], SettingDisplay("FORMAT")] = Field(
        default="auto", description="How: text, json, or auto for text on a terminal and json elsewhere."
    )
    container: bool = Field(
        default=False, description="It runs in a container: no secret may come from the environment."
    )

    @override
    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings

    @property
    def answer(self) -> IPv4Address | None:
        """The address that names have: the one that was set, else that of the transparent entry."""
        concrete = (at for at in self.transparent if isinstance(at, IPv4Address) and not at.is_unspecified)
        return self.dns_answer or next(concrete, None)

    @model_validator(mode="after")
    def _say_whence_rules_come(self) -> Self:
        if self.rules_configmap is not None and self.rules:
            raise setting_error(
                "--rules and --rules-configmap name two sets of rules", "leave one of them out"
            )
        # An authority is made before the first version of the ConfigMap is read.
        if self.rules_configmap is not None and self.ca_constrain:
            raise setting_error(
                "--ca-constrain needs the rules at the start, and a ConfigMap is read later",
                "leave one of them out",
            )
        return self

    @model_validator(mode="after")
    def _say_whose_authority(self) -> Self:
        if self.authority_file is not None and self.ca_constrain:
            raise setting_error(
                "--ca-constrain is for an authority that this proxy makes, and --authority-file names one",
                "leave one of them out",
            )
        return self

    @model_validator(mode="after")
    def _say_which_handlers(self) -> Self:
        if self.handlers_in_process and self.handlers is None:
            raise setting_error("--handlers-in-process has no effect without --handlers", "name a file there")
        return self

    @model_validator(mode="after")
    def _say_who_may_come(self) -> Self:
        opened = [f"--{name}" for name in ("transparent", "dns") if getattr(self, name)]
        if opened and not self.network:
            raise setting_error(
                f"{opened[0]} serves every client that can reach it and cannot ask for a password",
                "give --network where only the sandbox can reach that address, and leave it out elsewhere",
            )
        if self.dns and self.answer is None:
            raise setting_error(
                "--dns has no address to answer with",
                "name one with --dns-answer: an IPv4 address at which the sandbox finds --transparent",
            )
        if self.dns_answer is not None and not self.dns:
            raise setting_error("--dns-answer has no effect without --dns", "name an address with --dns")
        return self

    @model_validator(mode="after")
    def _say_who_is_told_apart(self) -> Self:
        if not self.kubernetes:
            return self
        if not self.network or not self.listen:
            raise setting_error(
                "--kubernetes tells clients apart that come over the network, and they cannot",
                "give --network and an address with --listen",
            )
        others = {
            "--password-file": self.password_file,
            "--handover": self.handover,
            "--profile": self.profile,
        }
        if wrong := next((name for name, value in others.items() if value), ""):
            raise setting_error(
                f"{wrong} has no meaning with --kubernetes: there the cluster says what a sandbox is",
                f"remove {wrong}",
            )
        return self

    @model_validator(mode="after")
    def _say_who_may_dial(self) -> Self:
        for listen in self.listen:
            if not listen.is_loopback and not self.network and self.password_file is None:
                raise setting_error(
                    f"listening on {listen} opens the proxy, and the credentials it holds, to other machines",
                    "give --password-file, or --network where only the sandbox can reach that address",
                )
        opened = [f"--{name}" for name in ("transparent", "dns") if getattr(self, name)]
        if not self.listen and opened:
            message = f"{opened[0]} belongs to a listener, and there is none"
            raise setting_error(message, "name an address with --listen")
        if not self.listen and not self.handover:
            raise setting_error(
                "no address to listen on",
                "name an address with --listen, or allow handed-over listeners with --handover",
            )
        return self

    @model_validator(mode="after")
    def _say_who_may_scrape(self) -> Self:
        at = self.metrics
        if at is None:
            given = [name for name in ("metrics_token_file", "metrics_allow") if getattr(self, name)]
            if given:
                raise setting_error(
                    f"{flag(given[0])} has no effect without --metrics", "name an address there"
                )
        elif at.is_loopback and self.metrics_allow:
            raise setting_error(
                "--metrics-allow has no effect on a loopback address", "leave it out, or name another address"
            )
        elif not at.is_loopback and self.metrics_token_file is None and not self.metrics_allow:
            raise setting_error(
                f"serving the metrics on {at} opens them, and the names in the rules, to other machines",
                "give --metrics-token-file, or name the machines that scrape with --metrics-allow",
            )
        return self

    @model_validator(mode="after")
    def _say_where_telemetry_goes(self) -> Self:
        given = [name for name in ("otlp_headers_file", "otlp_ca") if getattr(self, name)]
        if self.otlp is None and given:
            raise setting_error(f"{flag(given[0])} has no effect without --otlp", "name a collector there")
        return self


# Reading them -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """The settings as they are, and where each one came from."""

    values: Settings
    origins: Mapping[str, Origin]

    def rows(self) -> Iterator[tuple[str, str, Origin]]:
        """Every setting as `--flag`, its value, and its origin."""
        for name in Settings.model_fields:
            yield flag(name), format_setting(name, getattr(self.values, name)), self.origins[name]


def read(flags: Mapping[str, object]) -> EffectiveSettings:
    """Return the settings from the flags that were given, the environment, and the defaults.

    Raises `UsageError` that names the flag or variable; it never quotes what was written there.
    """
    try:
        values = Settings.model_validate(dict(flags))
    except ValidationError as errors:
        raise _usage(errors.errors(include_url=False, include_input=False)[0], flags) from None
    known = {name.upper() for name, value in environment.read_environment().items() if value}
    origins: dict[str, Origin] = {}
    for name in Settings.model_fields:
        is_set = variable(name) in known
        origins[name] = "flag" if name in flags else "environment" if is_set else "default"
    return EffectiveSettings(values, origins)


def unknown_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Every variable that looks like a setting and is none, with the one that was probably meant."""
    # Without the prefix, by which all would be alike.
    known = [name.upper() for name in Settings.model_fields]
    for name in sorted(environ):
        rest = name.removeprefix(VARIABLE_PREFIX)
        if rest != name and rest not in known and name not in FOREIGN_VARIABLES:
            meant = difflib.get_close_matches(rest, known, n=1, cutoff=0.75)
            yield name, VARIABLE_PREFIX + meant[0] if meant else ""


def flag(name: str) -> str:
    """The flag of a setting."""
    return f"--{name.replace('_', '-')}"


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"{VARIABLE_PREFIX}{name.upper()}"


def format_setting(name: str, value: object) -> str:
    """A value as people write it."""
    if name == "listen" and value == ():
        return NO_ADDRESS
    if value is None or value == ():
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value)
    kind = display_of(Settings.model_fields[name]).value
    if isinstance(value, int) and kind == "SIZE":
        return _as_size(value)
    return f"{value}s" if kind == "TIME" else str(value)


def display_of(field: FieldInfo) -> SettingDisplay:
    """How people see a setting."""
    return next((item for item in field.metadata if isinstance(item, SettingDisplay)), SettingDisplay("NAME"))


def _as_size(value: int) -> str:
    for unit, size in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if value and value % size == 0:
            return f"{value // size} {unit}"
    return str(value)


def _usage(error: ErrorDetails, flags: Mapping[str, object]) -> UsageError:
    where = str(error["loc"][0]) if error["loc"] else ""
    context = error.get("ctx", {})
    message, hint = _said(error["type"], context)
    if not where:
        return UsageError(message, hint)
    given = flag(where) if where in flags else variable(where)
    return UsageError(f"{given}: {message}", hint)


def _said(kind: str, context: Mapping[str, object]) -> tuple[str, str]:
    """Return the error and its hint, in our words."""
    if kind == "setting":
        return str(context["message"]), str(context["hint"])
    if kind == "literal_error":
        return "this is not one of the choices", f"write {str(context['expected']).replace(chr(39), '`')}"
    if kind in ("greater_than_equal", "less_than_equal"):
        bound = f"at least {context['ge']}" if "ge" in context else f"at most {context['le']}"
        return f"the number must be {bound}", ""
    if kind.startswith("int"):
        return "this is not a whole number", ""
    if kind.startswith("bool"):
        return "this is neither yes nor no", "write true or false"
    return "this value cannot be used", ""
