"""The shapes of predicates on bodies, which stand below `git:` and `graphql:` of a rule."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from egress.rules.language.strict_model import Model, by_exact_type


class GitPushDeny(Model):
    """Pushes that a rule denies; a list that is missing means all."""

    repos: list[str] | None = Field(None, description="Repositories by their path, without `.git`.")
    refs: list[str] | None = Field(None, description="Full names of refs, with `*` and `**` as in paths.")
    options: list[str] | None = Field(None, description="Push options; one of them is enough.")


class GitPushAllow(Model):
    """Pushes that a rule allows."""

    repos: list[str] = Field(
        description="Repositories by their path, without `.git`: `acme/app`, `acme/*`, `**`."
    )
    refs: list[str] = Field(
        description="Full names of the refs that may be pushed, such as `refs/heads/agent/**`."
    )
    create: bool = Field(True, description="New refs may be created.")
    update: Literal["fast-forward", "any"] = Field(
        "fast-forward",
        description="Refs may move to commits that follow theirs, or to `any` commit, as a forced push does.",
    )
    delete: bool = Field(False, description="Refs may be deleted.")
    options: list[str] | None = Field(
        None, description="Push options that may be sent along, such as `ci.skip`; none by default."
    )


class GitDeny(Model):
    """Requests of git that a rule denies."""

    fetch: list[str] | None = Field(None, description="Repositories that must not be cloned or fetched.")
    push: GitPushDeny | None = Field(None, description="Pushes that are denied.")


class GitAllow(Model):
    """Requests of git over smart HTTP that a rule allows."""

    fetch: list[str] | None = Field(
        None, description="Repositories that may be cloned and fetched, by their path without `.git`."
    )
    push: GitPushAllow | None = Field(None, description="Pushes by repository and ref.")


ArgumentScalar = str | bool | int | float


class ArgumentBounds(Model):
    """A number within bounds, or no value at all."""

    min: int | float | None = Field(None, description="Smallest number.")
    max: int | float | None = Field(None, description="Largest number.")
    absent: bool = Field(False, description="The argument is not there, in whatever letters.")


ArgumentValues = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[bool, Tag("true")]
    | Annotated[int, Tag("number")]
    | Annotated[float, Tag("fraction")]
    | Annotated[list[ArgumentScalar], Tag("list")]
    | Annotated[ArgumentBounds, Tag("mapping")],
    by_exact_type(
        {str: "text", bool: "true", int: "number", float: "fraction", list: "list", dict: "mapping"}
    ),
]


class McpTool(Model):
    """A tool with the arguments that it may be called with."""

    name: str = Field(description="Name of the tool, with `*` for any run.")
    when: dict[str, ArgumentValues] | None = Field(
        None,
        description="Values of arguments by their path, such as `repo`, `author/name` or `labels/*`.",
    )
    only: bool = Field(False, description="The call has no other arguments than those of `when`.")


McpTools = list[
    Annotated[
        Annotated[str, Tag("text")] | Annotated[McpTool, Tag("mapping")],
        by_exact_type({str: "text", dict: "mapping"}),
    ]
]


class McpDeny(Model):
    """Requests of MCP that a rule denies."""

    tools: list[str] | None = Field(None, description="Tools that must not be called.")
    resources: list[str] | None = Field(None, description="Addresses of resources.")
    prompts: list[str] | None = Field(None, description="Names of prompts.")
    methods: list[str] | None = Field(None, description="Methods of messages.")


class McpAllow(Model):
    """Requests of MCP that a rule allows. All begin sessions and ask for lists, which are filtered."""

    tools: McpTools | None = Field(None, description="Tools that may be called; none by default.")
    resources: list[str] | None = Field(
        None, description="Resources that may be read, by address, with `*` and `**` as in paths."
    )
    prompts: list[str] | None = Field(None, description="Prompts that may be fetched, with `*` for any run.")
    methods: list[str] | None = Field(None, description="Further methods, such as `subscriptions/listen`.")
    server_requests: list[str] | None = Field(
        None, description="Requests of the server that reach the client, such as `roots/list`."
    )
    list_: Literal["filter", "pass"] = Field(
        "filter",
        alias="list",
        description="Lists show only the tools, resources and prompts of the rules, or `pass` as they are.",
    )


RootFields = Annotated[
    Annotated[Literal["any"], Tag("`any`")] | Annotated[list[str], Tag("list")],
    by_exact_type({str: "`any`", list: "list"}),
]


class GraphqlFields(Model):
    """GraphQL operations, by their type and the names of their root fields."""

    query: RootFields | None = Field(
        None, description="Root fields of queries, with `*` for any run; `any` for all."
    )
    mutation: RootFields | None = Field(None, description="Root fields of mutations.")
    subscription: RootFields | None = Field(None, description="Root fields of subscriptions.")


class StoredFields(Model):
    """The root fields of a stored document, by operation type."""

    query: list[str] | None = Field(None, description="Root fields of its queries.")
    mutation: list[str] | None = Field(None, description="Root fields of its mutations.")
    subscription: list[str] | None = Field(None, description="Root fields of its subscriptions.")


class GraphqlScope(Model):
    """The repositories that a document may reach."""

    github: Annotated[list[str], Field(min_length=1)] = Field(
        description="Repositories of GitHub by name: `acme/app`, `acme/*`, `*/*` for all."
    )
    ids: list[str] | None = Field(
        None,
        description="Ids of repositories, as `acme/app=R_...`; each counts where `github` covers its name.",
    )


class GraphqlAllow(GraphqlFields):
    """GraphQL requests that a rule allows. An operation type that is not named is not allowed."""

    batch: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None, description="Largest array of requests in a body; none by default."
    )
    introspection: bool = Field(False, description="Also allow `__schema` and `__type`.")
    get: bool = Field(False, description="Also allow queries by GET, with all of it in the URL.")
    persisted: dict[str, StoredFields] | None = Field(
        None, description="Stored documents by SHA-256, each with the root fields that it stands for."
    )
    no_fields: list[str] | None = Field(
        None, description="Names of fields that a document must not have below its root fields."
    )
    scope: GraphqlScope | None = Field(
        None,
        description="Repositories to which the document is narrowed, in arguments and in all it selects.",
    )
    scope_exempt: list[str] | None = Field(
        None, description="Root fields that are allowed without the scope, such as `search`."
    )


Api = Literal[
    "anthropic",
    "openai-chat",
    "openai-responses",
    "openai-embeddings",
    "gemini",
    "bedrock-converse",
    "bedrock-invoke",
]


class LlmDeny(Model):
    """Calls of language models that a rule denies; each key narrows it."""

    api: Api = Field(description="API of the vendor, whose requests are read.")
    models: list[str] | None = Field(None, description="Models, with `*` for any run; all by default.")
    server_tools: list[str] | None = Field(
        None, description="Tools that run at the vendor; one of them is enough."
    )


class LlmAllow(Model):
    """Calls of language models that a rule allows."""

    api: Api = Field(description="API of the vendor, whose requests and answers are read.")
    models: list[str] = Field(
        description="Models that a call may reach, with `*` for any run, such as `claude-haiku-*`."
    )
    max_output: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        None, description="Most tokens of all answers to a call."
    )
    over: Literal["deny", "clamp"] = Field(
        "deny",
        description="A call that asks for more, or states nothing, is denied, or lowered to `max_output`.",
    )
    choices: Annotated[int, Field(ge=1, le=128)] = Field(
        1, description="Most answers to a call, as `n` or `candidateCount` asks for."
    )
    server_tools: list[str] = Field(
        default_factory=list,
        description="Tools that run at the vendor and may be used, such as `web_search`; none by default.",
    )
    budget: (
        Annotated[
            Annotated[str, Tag("text")] | Annotated[list[str], Tag("list")],
            by_exact_type({str: "text", list: "list"}),
        ]
        | None
    ) = Field(None, description="Budgets that the calls count for, by name.")
