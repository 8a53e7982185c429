"""The rules of one sandbox: what is granted to it, and what would happen to a request of its.

The rule file says under `delegate` what may be granted, for how long, and to whom. The proxy holds every
change to that. It ends each grant with its time, and with its sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from egress.runtime.spec import NO_VALUES
from egress.sandbox import capabilities
from egress.sandbox.command_runner import CommandRunner

if TYPE_CHECKING:
    from egress.api.handler_schema import ChosenHandler, HandlersView
    from egress.api.policy_schema import ExplanationView, GrantView, PolicyView
    from egress.fleet.policies import FleetPolicies

DEFAULT_GRANT_SECONDS: Final = 600


class SandboxPolicy:
    """The rules of one sandbox.

    >>> sandbox.policy.allow("GET https://files.example.com/public/**", ttl=300).id  # doctest: +SKIP
    'g-5f2b8c0d'
    """

    def __init__(self, place: CommandRunner) -> None:
        self._place = place

    def __repr__(self) -> str:
        return f"<SandboxPolicy of {self._place.name!r}>"

    def show(self) -> PolicyView:
        """Return what is granted to it, and what may be granted.

        >>> [each.change for each in sandbox.policy.show().grants]  # doctest: +SKIP
        ['allow GET https://files.example.com/public/**']
        """
        return self._policies().show(self._place.name)

    def allow(self, request: str, *, ttl: int = DEFAULT_GRANT_SECONDS) -> GrantView:
        """Allow requests for a time, without a credential: an https URL, with methods in front.

        `ttl` is in seconds. Raises `GrantBeyondError` for what the rules do not delegate to the sandbox,
        `GrantRefusedError` where they close the host, and `SpecError` for what is no rule.

        >>> sandbox.policy.allow("GET,HEAD https://files.example.com/public/**")  # doctest: +SKIP
        """
        return self._grant("allow", request, ttl)

    def deny(self, request: str, *, ttl: int = DEFAULT_GRANT_SECONDS) -> GrantView:
        """Deny requests for a time; see `allow`. Open connections that are denied end.

        >>> sandbox.policy.deny("https://api.example.com", ttl=3600)  # doctest: +SKIP
        """
        return self._grant("deny", request, ttl)

    def choose_profile(self, profile: str, *, ttl: int = DEFAULT_GRANT_SECONDS) -> GrantView:
        """Give it another profile for a time; see `allow`.

        >>> sandbox.policy.choose_profile("coding", ttl=1800)  # doctest: +SKIP
        """
        # Imported here, as below: few programs change the rules, and each would load the values of the API.
        from egress.api.policy_schema import GrantSettings  # noqa: PLC0415

        settings = GrantSettings(kind="profile", ttl=ttl, profile=profile)
        return self._policies().grant(self._place.name, settings)

    def undo(self, grant: str) -> GrantView:
        """Take a grant back. Raises `GrantNotFoundError`.

        >>> sandbox.policy.undo("g-5f2b8c0d")  # doctest: +SKIP
        """
        return self._policies().undo(self._place.name, grant)

    def handlers(self) -> HandlersView:
        """Return the handlers that were chosen for it, and those that can be; see `set_outbound_handler`.

        >>> sandbox.policy.handlers().loaded  # doctest: +SKIP
        ('block', 'kv')
        """
        return self._policies().handlers(self._place.name)

    def set_outbound_handler(self, name: str | None, params: Mapping[str, object] | None = None) -> None:
        """Let this handler be asked about requests to all hosts that have none; None for no handler.

        A handler is a function in the operator's file, `egress up --handlers FILE`. It is asked only about
        what the rules allow, and never takes the place of a handler that they name. Raises
        `GrantRefusedError` for one that is not loaded.

        >>> sandbox.policy.set_outbound_handler("block")  # doctest: +SKIP
        """
        from egress.api.handler_schema import ChosenHandler  # noqa: PLC0415

        chosen = None if name is None else ChosenHandler(use=name, params=dict(params or {}))
        self._choose(self.handlers().by_host, chosen)

    def set_outbound_by_host(self, host: str, name: str, params: Mapping[str, object] | None = None) -> None:
        """Let this handler be asked about requests to a host, or to those of a pattern.

        >>> sandbox.policy.set_outbound_by_host("api.example.com", "kv", {"region": "eu"})  # doctest: +SKIP
        """
        from egress.api.handler_schema import ChosenHandler  # noqa: PLC0415

        now = self.handlers()
        chosen = ChosenHandler(use=name, params=dict(params or {}))
        self._choose({**now.by_host, host: chosen}, now.catch_all)

    def set_outbound_by_hosts(self, handlers: Mapping[str, str | tuple[str, Mapping[str, object]]]) -> None:
        """Let these handlers, and no others, be asked about hosts: a name, or a name and its parameters.

        >>> sandbox.policy.set_outbound_by_hosts({"my.kv": ("kv", {"team": "blue"})})  # doctest: +SKIP
        """
        from egress.api.handler_schema import ChosenHandler  # noqa: PLC0415

        pairs = {host: (each, {}) if isinstance(each, str) else each for host, each in handlers.items()}
        chosen = {
            host: ChosenHandler(use=name, params=dict(params)) for host, (name, params) in pairs.items()
        }
        self._choose(chosen, self.handlers().catch_all)

    def remove_outbound_by_host(self, host: str) -> None:
        """Ask no handler about this host that was chosen for it. Does nothing if there is none.

        >>> sandbox.policy.remove_outbound_by_host("api.example.com")  # doctest: +SKIP
        """
        now = self.handlers()
        self._choose({each: chosen for each, chosen in now.by_host.items() if each != host}, now.catch_all)

    def explain(
        self, method: str, url: str, *, headers: Mapping[str, str] = NO_VALUES, websocket: bool = False
    ) -> ExplanationView:
        """Return what the proxy would do with a request; nothing is sent.

        >>> sandbox.policy.explain("GET", "https://api.example.com/v1/user").outcome  # doctest: +SKIP
        'allow read, inject tracker'
        """
        from egress.api.policy_schema import RequestSettings  # noqa: PLC0415

        settings = RequestSettings(method=method, url=url, headers=dict(headers), websocket=websocket)
        return self._policies().explain(self._place.name, settings)

    def _choose(self, by_host: Mapping[str, ChosenHandler], catch_all: ChosenHandler | None) -> None:
        from egress.api.handler_schema import HandlerSettings  # noqa: PLC0415

        settings = HandlerSettings(by_host=dict(by_host), catch_all=catch_all)
        self._policies().choose_handlers(self._place.name, settings)

    def _grant(self, kind: Literal["allow", "deny"], request: str, ttl: int) -> GrantView:
        from egress.fleet.policies import read_change  # noqa: PLC0415

        return self._policies().grant(self._place.name, read_change(kind, request, ttl))

    def _policies(self) -> FleetPolicies:
        return capabilities.require_fleet(self._place.runtime, "change the rules of a sandbox").policies
