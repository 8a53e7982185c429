// GraphQL by the library as its documentation shows it: variables, pages, and a mutation.
import { Octokit } from "octokit";

const octokit = new Octokit({ auth: process.env.GITHUB_TOKEN });
const list = `query IssueList($owner: String!, $repo: String!, $cursor: String) {
  repository(owner: $owner, name: $repo) {
    issues(first: 10, after: $cursor) { nodes { title } pageInfo { hasNextPage endCursor } }
  }
}`;
const found = await octokit.graphql.paginate(list, { owner: "acme", repo: "widgets" });
console.log(found.repository.issues.nodes.map((issue) => issue.title).join());
const comment = `mutation CommentCreate($input: AddCommentInput!) {
  addComment(input: $input) { commentEdge { node { url } } }
}`;
const input = { subjectId: process.argv[2], body: "Seen" };
console.log((await octokit.graphql(comment, { input })).addComment.commentEdge.node.url);
for (const [document, variables] of [
  [list, { owner: "evil", repo: "widgets" }],
  [comment, { input: { ...input, subjectId: process.argv[3] } }],
]) {
  try {
    await octokit.graphql(document, variables);
    console.log("allowed");
  } catch (error) {
    console.log(error.status, error.response?.data.errors[0].extensions.code);
  }
}
