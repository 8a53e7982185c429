"""Requests to GitHub's GraphQL by number, with a scope: acme/app, whose id is known, and acme/docs.

Numbers alone are those of the table of vectors; `list N` is an item of the list of ways around a scope.
"""

from __future__ import annotations

import base64
from typing import Final

from egress.inspect.graphql.github.node_id import write_node_id
from tests.unit.inspect.graphql.vectors import Vector, envelope

HOME_NUMBER: Final = 1296269
FOREIGN_NUMBER: Final = 99999999
HOME: Final = "R_kgDOABPHjQ"
HOME_ISSUE: Final = "I_kwDOABPHjQE"
FOREIGN: Final = write_node_id("R", (0, FOREIGN_NUMBER))
FOREIGN_ISSUE: Final = write_node_id("I", (0, FOREIGN_NUMBER, 1))
PERSON: Final = "U_kgDOADP9xw"
SCOPE: Final = f'scope: {{github: [acme/app, acme/docs], ids: ["acme/app={HOME}"]}}'
SCOPED: Final = (
    "graphql: {query: [repository, viewer, node, nodes, search, resource, organization, user,"
    " repositoryOwner, rateLimit, relay], mutation: [addComment, addPullRequestReviewComment, addSubIssue,"
    " createIssue, updateIssue, createPullRequest, createCommitOnBranch, createRepository, importProject,"
    f" updateEnvironment], introspection: true, {SCOPE}}}"
)
EXEMPT: Final = SCOPED.removesuffix("}") + ", scope_exempt: [search]}"


def old_id(kind: str, number: int) -> str:
    """An id in GitHub's older form."""
    return base64.b64encode(f"0{len(kind)}:{kind}{number}".encode()).decode()


def within(selection: str) -> bytes:
    """A request for a part of the repository in the scope."""
    return envelope(f'{{repository(owner:"acme",name:"app"){{{selection}}}}}')


def mutated(field: str, given: str, answer: str = "clientMutationId") -> bytes:
    return envelope(f"mutation{{{field}(input:{{{given}}}){{{answer}}}}}")


def asked(number: str, body: bytes, code: str = "rule.allowed", item: str = "", rule: str = SCOPED) -> Vector:
    return Vector(number, body, code, item, rule=rule)


DEFAULTED: Final = 'query($o:String="evil",$n:String!){repository(owner:$o,name:$n){id}}'
STUBS: Final = (
    "id author{login ...on User{id name}} assignees(first:9){nodes{id login name} totalCount}"
    " repository{nameWithOwner owner{id login}}"
)
FORK: Final = "id name owner{login} viewerPermission defaultBranchRef{name}"
REPOSITORY: Final = "query.repository"

SCOPE_VECTORS: Final = (
    asked("21", envelope(DEFAULTED, variables={"n": "app"}), "graphql.scope", f"{REPOSITORY} evil/app"),
    asked("21 given", envelope(DEFAULTED, variables={"o": "acme", "n": "app"})),
    asked(
        "21 null",
        envelope(DEFAULTED, variables={"o": None, "n": "app"}),
        "graphql.scope",
        f"{REPOSITORY}: a repository is not named by texts",
    ),
    asked(
        "21 unset", envelope(DEFAULTED), "graphql.scope", f"{REPOSITORY}: a repository is not named by texts"
    ),
    asked("22", envelope('{repository(owner:"ACME",name:"App"){issues(first:1){nodes{title}}}}')),
    asked(
        "22 other",
        envelope('{repository(owner:"acme",name:"App2"){id}}'),
        "graphql.scope",
        f"{REPOSITORY} acme/App2",
    ),
    asked(
        "22 two",
        envelope('{a:repository(owner:"acme",name:"app"){id} b:repository(owner:"evil",name:"x"){id}}'),
        "graphql.scope",
        f"{REPOSITORY} evil/x",
    ),
    asked("23", envelope(f'{{node(id:"{HOME_ISSUE}"){{id}}}}')),
    asked(
        "23 foreign",
        envelope('{node(id:"I_kwDOBfXg_wE"){id}}'),
        "graphql.scope",
        f"query.node repository {FOREIGN_NUMBER}",
    ),
    asked(
        "23 old",
        envelope('{node(id:"MDU6SXNzdWUx"){id}}'),
        "graphql.old_node_id",
        "query.node: an id of the older form does not tell its repository",
    ),
    asked("23 old repository", envelope(f'{{node(id:"{old_id("Repository", HOME_NUMBER)}"){{id}}}}')),
    asked(
        "23 one of two",
        envelope(f'{{nodes(ids:["{HOME_ISSUE}","{FOREIGN_ISSUE}"]){{id}}}}'),
        "graphql.scope",
        f"query.nodes repository {FOREIGN_NUMBER}",
    ),
    asked("23 none", envelope("{nodes(ids:[]){id}}"), "graphql.scope", "query.nodes: it names no repository"),
    asked(
        "24",
        within('parent{object(expression:"HEAD:x"){id}}'),
        "graphql.foreign",
        f"{REPOSITORY}: object is asked of something outside the repository",
    ),
    asked("24 name", within("parent{name}")),
    asked("24 gh", within(f"parent{{{FORK}}}")),
    asked(
        "25",
        mutated(
            "addPullRequestReviewComment",
            f'inReplyTo:"{write_node_id("PRRC", (0, FOREIGN_NUMBER, 5))}",body:"x"',
        ),
        "graphql.scope",
        f"mutation.addPullRequestReviewComment repository {FOREIGN_NUMBER}",
    ),
    asked(
        "26",
        envelope('{search(query:"repo:acme/app",type:ISSUE,first:1){issueCount}}'),
        "graphql.scope_root",
        "query.search: it is not about one repository",
    ),
    asked(
        "26 exempt", envelope('{search(query:"repo:acme/app",type:ISSUE,first:1){issueCount}}'), rule=EXEMPT
    ),
    asked(
        "27 scope",
        envelope(
            '{repository(owner:"acme",name:"app"){...F0}}'
            + "".join(f" fragment F{n} on Repository{{...F{n + 1} ...F{n + 1}}}" for n in range(20))
            + " fragment F20 on Repository{id}"
        ),
    ),
    asked(
        "list 12",
        envelope('{relay{repository(owner:"evil",name:"x"){id}}}'),
        "graphql.scope_root",
        "query.relay: it is not about one repository",
    ),
    asked(
        "list 14",
        envelope("query($i:ID!){node(id:$i){id}}", variables={"i": FOREIGN_ISSUE}),
        "graphql.scope",
        f"query.node repository {FOREIGN_NUMBER}",
    ),
    asked(
        "list 14 input",
        envelope(
            "mutation($i:CreateIssueInput!){createIssue(input:$i){issue{id}}}",
            variables={"i": {"repositoryId": FOREIGN, "title": "x"}},
        ),
        "graphql.scope",
        f"mutation.createIssue repository {FOREIGN_NUMBER}",
    ),
    asked(
        "list 14 right",
        envelope(
            "mutation($i:CreateIssueInput!){createIssue(input:$i){issue{id url}}}",
            variables={"i": {"repositoryId": HOME, "title": "x", "assigneeIds": [PERSON]}},
        ),
    ),
    asked(
        "list 15 reviewers",
        mutated("updateEnvironment", f'environmentId:"{HOME}",reviewers:["{FOREIGN_ISSUE}"]'),
        "graphql.scope_root",
        "mutation.updateEnvironment: it is not about one repository",
    ),
    asked(
        "list 15 person",
        mutated("addComment", f'subjectId:"{PERSON}",body:"x"'),
        "graphql.scope",
        "mutation.addComment: an id of a person stands where an object is addressed",
    ),
    asked(
        "list 15 organizationID",
        envelope(f'{{viewer{{contributionsCollection(organizationID:"{FOREIGN}"){{hasAnyContributions}}}}}}'),
        "graphql.foreign",
        "query.viewer: contributionsCollection is asked of something outside the repository",
    ),
    asked(
        "list 16",
        envelope('{resource(url:"https://github.com/evil/x/issues/1"){url}}'),
        "graphql.scope_root",
        "query.resource: it is not about one repository",
    ),
    asked(
        "list 16 sub-issue",
        mutated("addSubIssue", f'issueId:"{HOME_ISSUE}",subIssueUrl:"https://github.com/evil/x/issues/1"'),
        "graphql.scope",
        "mutation.addSubIssue: an address of this kind cannot be compared",
    ),
    asked(
        "list 17",
        mutated(
            "createCommitOnBranch",
            'branch:{repositoryNameWithOwner:"evil/x",branchName:"b"},expectedHeadOid:"1",message:{headline:"h"}',
        ),
        "graphql.scope",
        "mutation.createCommitOnBranch evil/x",
    ),
    asked(
        "list 17 right",
        mutated(
            "createCommitOnBranch",
            'branch:{repositoryNameWithOwner:"acme/docs",branchName:"b"},expectedHeadOid:"1",message:{headline:"h"}',
        ),
    ),
    asked(
        "list 17 project",
        mutated(
            "importProject",
            'ownerName:"evil",name:"n",columnImports:[{issues:[{repository:"evil/x",number:1}]}]',
        ),
        "graphql.scope",
        "mutation.importProject: an address of this kind cannot be compared",
    ),
    asked(
        "list 17 head",
        mutated(
            "createPullRequest", f'repositoryId:"{HOME}",baseRefName:"main",headRefName:"evil:b",title:"t"'
        ),
        "graphql.scope",
        "mutation.createPullRequest: a branch of another repository is named",
    ),
    asked(
        "list 18",
        within("forks(first:9){nodes{nameWithOwner}}"),
        "graphql.foreign",
        f"{REPOSITORY}: Repository.forks leads out of the repository",
    ),
    asked(
        "list 18 organization",
        envelope('{organization(login:"acme"){repositories(first:9){nodes{name}}}}'),
        "graphql.foreign",
        "query.organization: repositories is asked of something outside the repository",
    ),
    asked(
        "list 18 topic",
        within("repositoryTopics(first:1){nodes{topic{repositories(first:1){nodes{name}}}}}"),
        "graphql.foreign",
        f"{REPOSITORY}: Topic.repositories leads out of the repository",
    ),
    asked("list 19 stubs", within(f"issues(first:1){{nodes{{{STUBS}}}}}")),
    asked(
        "list 19 body",
        within("issue(number:1){parent{body}}"),
        "graphql.foreign",
        f"{REPOSITORY}: body is asked of something outside the repository",
    ),
    asked(
        "list 19 fragment",
        envelope(
            '{repository(owner:"acme",name:"app"){issue(number:1){repository{...F}}}}'
            " fragment F on Repository{issues(first:1){nodes{body}}}"
        ),
        "graphql.foreign",
        f"{REPOSITORY}: issues is asked of something outside the repository",
    ),
    asked(
        "list 19 both",
        envelope(
            '{repository(owner:"acme",name:"app"){...F parent{...F}}} fragment F on Repository{homepageUrl}'
        ),
        "graphql.foreign",
        f"{REPOSITORY}: homepageUrl is asked of something outside the repository",
    ),
    asked(
        "list 20",
        envelope('{repository(owner:"acme",name:"app",followRenames:true){id}}'),
        "graphql.scope",
        f"{REPOSITORY}: followRenames may lead to another repository",
    ),
    asked("list 20 not", envelope('{repository(owner:"acme",name:"app",followRenames:false){id}}')),
    asked(
        "unknown field",
        within("somethingNew"),
        "graphql.unknown_field",
        f"{REPOSITORY}: Repository.somethingNew is not in the schema of 2025-12-31",
    ),
    asked(
        "token",
        within("tempCloneToken"),
        "graphql.foreign",
        f"{REPOSITORY}: Repository.tempCloneToken leads out of the repository",
    ),
    asked(
        "no address",
        mutated("createRepository", 'name:"x",visibility:PUBLIC'),
        "graphql.scope",
        "mutation.createRepository: it names no repository",
    ),
    asked(
        "owner root",
        envelope('{organization(login:"acme"){login repository(name:"app"){id issues{totalCount}}}}'),
    ),
    asked(
        "owner root elsewhere",
        envelope('{repositoryOwner(login:"evil"){...on User{repository(name:"x"){id}}}}'),
        "graphql.scope",
        "query.repositoryOwner evil/x",
    ),
    asked(
        "dots",
        envelope('{repository(owner:"acme/app",name:".."){id}}'),
        "graphql.scope",
        f"{REPOSITORY}: a repository is not named as GitHub names them",
    ),
    asked(
        "schema", envelope('{__type(name:"PullRequest"){fields{name}} viewer{login} rateLimit{remaining}}')
    ),
    asked(
        "directive",
        envelope('{repository(owner:"acme",name:"app")@to(id:"x"){id}}'),
        "graphql.document",
        f"{REPOSITORY}: a directive is neither @skip nor @include",
    ),
)
