"""Write the table by which a scope is judged, from the GraphQL schema that GitHub publishes.

    npm pack @octokit/graphql-schema && tar xzf octokit-graphql-schema-*.tgz
    .venv/bin/python -m scripts.github_schema package egress/inspect/graphql/github/schema_data.py

The package has the MIT licence. The judgements are the lists in this file: which types are parts of a
repository, which fields between them stay in it, and which slots of inputs hold addresses. A field that is in
no list is closed, so a part of the schema that is new opens nothing. Read the difference of the table before
it is committed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from graphql import (
    GraphQLArgument,
    GraphQLField,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    build_schema,
    get_named_type,
    is_leaf_type,
)

HEADER: Final = '''"""GitHub's schema as data, which `scripts/github_schema.py` writes: edit that one."""
# ruff: noqa: E501 - a type stands on one line, so that a difference is read type by type

from __future__ import annotations

from typing import Final

'''
MAX_LINE_CHARS: Final = 320
DATE: Final = "2025-12-31"
"""The day on which the package was published."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PARTS: Final = _words(
    """
    AutoMergeRequest Blame BlameRange Blob BranchProtectionRule CheckAnnotation CheckAnnotationPosition
    CheckAnnotationSpan CheckRun CheckRunStateCount CheckStep CheckSuite CodeOfConduct CommitComment
    CommitCommentThread ContributingGuidelines Deployment DeploymentStatus DiscussionCategory
    DiscussionComment DiscussionPoll DiscussionPollOption Environment FundingLink GitActor GitHubMetadata
    IssueComment IssueTemplate Label Language License LicenseRule Lockable Labelable Assignable Closable
    Comment Minimizable Reactable Node Updatable UpdatableComment Votable Subscribable Deletable
    LinkedBranch MergeQueue MergeQueueConfiguration MergeQueueEntry Milestone PageInfo PinnedDiscussion
    PinnedIssue PullRequestChangedFile PullRequestCommit PullRequestCommitCommentThread PullRequestReview
    PullRequestReviewComment PullRequestReviewThread PullRequestRevisionMarker PullRequestTemplate
    PullRequestThread RateLimit Reaction ReactionGroup RefUpdateRule Release ReleaseAsset
    RepositoryCodeowners RepositoryCodeownersError RepositoryContactLink RepositoryInteractionAbility
    RepositoryPlanFeatures RepositoryTopic RequirableByPullRequest ReviewRequest Status StatusCheckRollup
    StatusCheckRollupContext StatusContext StatusContextStateCount SubIssuesSummary Submodule Tag Topic Tree
    TreeEntry UserContentEdit Workflow WorkflowRun WorkflowRunFile IssueTimelineItems
    PullRequestTimelineItems
    """
)
"""Types that lie in the repository of the object that leads to them, and those that anybody may read."""

CROSSING: Final = _words(
    """
    Commit Discussion GitObject Issue IssueOrPullRequest PullRequest Ref Repository
    """
)
"""Types that an object of another repository can have, too: only the fields below stay in the repository."""

INSIDE: Final[Mapping[str, str]] = {
    "Repository": "defaultBranchRef discussion discussions issue issueOrPullRequest issues object pullRequest"
    " pullRequests ref refs",
    "Label": "issues pullRequests",
    "Milestone": "issues pullRequests",
    "PullRequest": "baseRef mergeCommit potentialMergeCommit",
    "Ref": "target",
    "Tag": "target",
    "TreeEntry": "object",
    "Commit": "history parents",
    "Release": "tag tagCommit",
    "PullRequestCommit": "commit pullRequest",
    "PullRequestReview": "commit pullRequest",
    "PullRequestReviewComment": "commit originalCommit pullRequest",
    "PullRequestReviewThread": "pullRequest",
    "IssueComment": "issue pullRequest",
    "CommitComment": "commit",
    "CheckSuite": "commit",
    "Status": "commit",
    "StatusCheckRollup": "commit",
    "StatusContext": "commit",
    "Deployment": "commit ref",
    "DiscussionComment": "discussion",
    "PinnedIssue": "issue",
    "PinnedDiscussion": "discussion",
    "MergeQueueEntry": "baseCommit headCommit pullRequest",
    "BlameRange": "commit",
    "MergedEvent": "commit pullRequest",
    "BaseRefForcePushedEvent": "afterCommit beforeCommit pullRequest",
    "HeadRefForcePushedEvent": "afterCommit beforeCommit pullRequest",
}
"""The fields whose objects of a crossing type are in the same repository."""

OUTSIDE: Final = _words(
    """
    Actor App Assignee Bot BranchActorAllowanceActor Closer DeploymentReviewer Enterprise
    EnterpriseUserAccount Mannequin Organization Project ProjectCard ProjectV2 ProjectV2Item ReactingUser
    Reactor ReferencedSubject RenamedTitleSubject RepositoryOwner RequestedReviewer SuggestedReviewer Team
    User
    """
)
"""Types of which, as of crossing ones elsewhere, only a stub may be asked."""

STUB_LEAVES: Final = _words(
    """
    __typename abbreviatedOid avatarUrl closed closedAt color createdAt cursor databaseId description
    endCursor fullDatabaseId hasDiscussionsEnabled hasIssuesEnabled hasNextPage hasPreviousPage
    hasProjectsEnabled hasWikiEnabled id isArchived isCrossRepository isDraft isFork isInOrganization
    isPrivate isTemplate key login merged mergedAt name nameWithOwner number oid optionId permission prefix
    resourcePath slug startCursor state stateReason title totalCount updatedAt url viewerPermission
    visibility
    """
)
"""Leaf fields that tell objects outside the repository apart, and say nothing of their content."""
STUB_OBJECTS: Final[Mapping[str, str]] = dict.fromkeys(
    sorted(
        _words(
            """
            column defaultBranchRef edges node nodes organization owner pageInfo project repository user
            """
        )
    ),
    "",
) | {"fieldValueByName": "name"}
"""Fields that lead from there to another object of which a stub may be asked, with their arguments."""

SECRETS: Final = frozenset({"tempCloneToken"})
"""Leaf fields whose value is a credential."""

PEOPLE_SLOTS: Final = frozenset({"assigneeIds", "userIds", "teamIds", "botIds", "reviewers"})
SLOTS: Final[Mapping[tuple[str, str], str]] = {
    ("CommittableBranch", "repositoryNameWithOwner"): "repository",
    ("ReplaceActorsForAssignableInput", "actorIds"): "people",
    ("CreatePullRequestInput", "headRefName"): "local",
    ("MergeBranchInput", "head"): "local",
    ("AddSubIssueInput", "subIssueUrl"): "closed",
    ("ProjectCardImport", "repository"): "closed",
    ("CreateSponsorsTierInput", "repositoryName"): "closed",
    ("CreateSponsorsTierInput", "repositoryOwnerLogin"): "closed",
}
"""Slots of text that hold addresses."""

UNREACHABLE_IDS: Final = _words(
    """
    appId cardId columnId destinationEnterpriseId enterpriseId environmentId fieldId invitationId
    ipAllowListEntryId itemId listId migrationId organizationId ownerId packageVersionId projectCardId
    projectColumnId projectId sponsorId sponsorableId statusUpdateId targetEnterpriseId targetOwnerId teamId
    tierId userId draftIssueId
    """
)
"""A mutation that needs one of these addresses something that is in no repository."""

_ACTORS: Final = """
    assignedActors(after: String, before: String, first: Int, last: Int): AssigneeConnection!
    suggestedActors(
      after: String, before: String, first: Int, last: Int, query: String
    ): AssigneeConnection!
"""
PREVIEW: Final = f"""
    extend interface Assignable {{ {_ACTORS} }}
    extend type Issue {{ {_ACTORS} }}
    extend type PullRequest {{ {_ACTORS} }}
    extend type Repository {{
      suggestedActors(
        after: String, before: String, first: Int, last: Int, query: String, capabilities: [String!]!
      ): AssigneeConnection!
    }}
    type AssigneeConnection {{ nodes: [Assignee] pageInfo: PageInfo! totalCount: Int! }}
    input ReplaceActorsForAssignableInput {{ assignableId: ID! actorIds: [ID!]! clientMutationId: String }}
    type ReplaceActorsForAssignablePayload {{ assignable: Assignable clientMutationId: String }}
    extend type Mutation {{
      replaceActorsForAssignable(input: ReplaceActorsForAssignableInput!): ReplaceActorsForAssignablePayload
    }}
"""
"""Parts that gh 2.83 asks for and the published schema does not have."""


type Fields = Mapping[str, GraphQLField]
type Slot = GraphQLArgument | GraphQLInputField


class _Table:
    """The schema, while the table is made of it."""

    def __init__(self, schema: GraphQLSchema) -> None:
        self.schema = schema
        self.types = schema.type_map
        events = {
            each.name
            for union in ("IssueTimelineItems", "PullRequestTimelineItems")
            for each in self._members(union)
        }
        self.parts = PARTS | {name for name in events if name.endswith("Event")}
        self.mutations = dict(self._mutations())
        self.payloads = {payload for payload, _ in self.mutations.values()}

    def _members(self, name: str) -> Iterable[GraphQLObjectType]:
        union = self.types[name]
        return tuple(union.types) if isinstance(union, GraphQLUnionType) else ()

    def _fields(self, name: str) -> Fields:
        found = self.types[name]
        return found.fields if isinstance(found, GraphQLObjectType | GraphQLInterfaceType) else {}

    def _mutations(self) -> Iterator[tuple[str, tuple[str, str]]]:
        for name, field in self._fields("Mutation").items():
            taken = get_named_type(field.args["input"].type)
            if not isinstance(taken, GraphQLInputObjectType):
                continue
            ids = {each for each, slot in taken.fields.items() if get_named_type(slot.type).name == "ID"}
            needed = {each for each in ids if isinstance(taken.fields[each].type, GraphQLNonNull)}
            nests = any(
                isinstance(get_named_type(each.type), GraphQLInputObjectType)
                for each in taken.fields.values()
            )
            if (ids or nests) and not needed & UNREACHABLE_IDS:
                yield name, (get_named_type(field.type).name, taken.name)

    def element(self, name: str) -> str:
        """The type of the objects in a connection or an edge; any other type itself."""
        fields = self._fields(name)
        if name.endswith("Connection") and "nodes" in fields:
            return get_named_type(fields["nodes"].type).name
        if name.endswith("Edge") and "node" in fields:
            return get_named_type(fields["node"].type).name
        return name

    def zone(self, owner: str, name: str, field: GraphQLField) -> str:
        """How far a field leads: `inside` the repository, to a `stub` of something else, or nowhere."""
        target = get_named_type(field.type).name
        element = self.element(target)
        if is_leaf_type(get_named_type(field.type)):
            return "closed" if name in SECRETS else "inside"
        # A list of repositories is an enumeration of what the credential can see.
        if element == "Repository" and target != element:
            return "closed"
        if element in self.parts:
            return "inside"
        is_part_of_list = self.element(owner) != owner and name in ("nodes", "edges", "node")
        is_answer = owner in self.payloads and element != "Repository"
        if element in CROSSING and (is_part_of_list or is_answer or name in INSIDE.get(owner, "").split()):
            return "inside"
        return "stub" if element in CROSSING | OUTSIDE else "closed"

    def objects(self) -> dict[str, dict[str, Any]]:
        """Every type that a document can come to within a repository."""
        found: dict[str, dict[str, Any]] = {}
        waiting = ["Repository", "Node", "License", "CodeOfConduct", "RateLimit", "GitHubMetadata"]
        waiting += [*self.parts, *CROSSING, *self.payloads]
        while waiting:
            owner = waiting.pop()
            if owner in found:
                continue
            rows: dict[str, Any] = {"leaf": [], "inside": {}, "stub": {}, "closed": []}
            for name, field in self._fields(owner).items():
                zone, target = self.zone(owner, name, field), get_named_type(field.type)
                slots = " ".join(self.slots(owner, field.args))
                if zone == "closed":
                    rows["closed"].append(name)
                elif is_leaf_type(target) and not slots:
                    rows["leaf"].append(name)
                else:
                    shown = "-" if is_leaf_type(target) else target.name
                    rows[zone][name] = f"{shown} {slots}".strip()
                    if zone == "inside" and shown != "-":
                        waiting.append(shown)
            found[owner] = {
                zone: " ".join(sorted(names)) if isinstance(names, list) else dict(sorted(names.items()))
                for zone, names in rows.items()
                if names
            }
        return dict(sorted(found.items()))

    def slots(self, owner: str, slots: Mapping[str, Slot]) -> Iterator[str]:
        """Yield each argument or input field, with what it holds where that matters."""
        for name, slot in sorted(slots.items()):
            target = get_named_type(slot.type)
            kind = SLOTS.get((owner, name), "")
            if target.name == "ID" and not kind:
                kind = "people" if name in PEOPLE_SLOTS else "id"
            elif isinstance(target, GraphQLInputObjectType):
                kind = target.name
            yield f"{name}:{kind}" if kind else name

    def inputs(self, objects: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """Every input type that a document can fill within a repository."""
        found: dict[str, str] = {}
        waiting = [taken for _, taken in self.mutations.values()]
        for rows in objects.values():
            for text in (*rows.get("inside", {}).values(), *rows.get("stub", {}).values()):
                waiting += [part.partition(":")[2] for part in text.split()[1:]]
        while waiting:
            name = waiting.pop()
            taken = self.types.get(name)
            if name in found or not isinstance(taken, GraphQLInputObjectType):
                continue
            found[name] = " ".join(self.slots(name, taken.fields))
            waiting += [get_named_type(each.type).name for each in taken.fields.values()]
        return dict(sorted(found.items()))


def table(text: str, source: str) -> str:
    """Return the table of a schema as it is written."""
    made = _Table(build_schema(text + PREVIEW, assume_valid=True, assume_valid_sdl=True))
    objects = made.objects()
    sections: dict[str, Mapping[str, object]] = {
        "stub": {"leaf": " ".join(sorted(STUB_LEAVES)), "objects": STUB_OBJECTS},
        "mutations": {name: " ".join(pair) for name, pair in sorted(made.mutations.items())},
        "objects": objects,
        "inputs": made.inputs(objects),
    }
    lines = [f'"source": {json.dumps(source)}', f'"date": {json.dumps(DATE)}']
    for section, rows in sections.items():
        shown = _packed(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        lines.append(f"{json.dumps(section)}: {{\n{shown}\n}}")
    return f'{HEADER}SCHEMA: Final = """{{\n{",\n".join(lines)}\n}}"""\n'


def _packed(rows: Iterable[str]) -> str:
    """Join rows, short ones on one line."""
    lines: list[str] = []
    for row in rows:
        if lines and len(lines[-1]) + len(row) < MAX_LINE_CHARS:
            lines[-1] += f", {row}"
        else:
            lines.append(row)
    return ",\n".join(lines)


def main(package: str, out: str) -> None:
    """Write the table of an unpacked package."""
    folder = Path(package)
    version = json.loads((folder / "package.json").read_text("utf-8"))["version"]
    text = (folder / "schema.graphql").read_text("utf-8")
    Path(out).write_text(table(text, f"@octokit/graphql-schema {version}"), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
