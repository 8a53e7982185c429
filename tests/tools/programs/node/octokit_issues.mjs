// Issues and a pull request, by the library as its documentation shows it.
import { Octokit } from "octokit";

const octokit = new Octokit({ auth: process.env.GITHUB_TOKEN });
const where = { owner: "acme", repo: "widgets" };
console.log((await octokit.rest.users.getAuthenticated()).data.login);
console.log((await octokit.paginate(octokit.rest.issues.listForRepo, where)).map((issue) => issue.title).join());
console.log((await octokit.rest.issues.create({ ...where, title: "A second issue" })).data.number);
const asked = { ...where, title: "A change", head: "feature", base: "main" };
console.log((await octokit.rest.pulls.create(asked)).data.html_url);
