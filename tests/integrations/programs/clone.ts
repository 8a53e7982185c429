/** Clones a repository into a sandbox, and prints what came of it and what the sandbox holds of the credential. */

import { EgressClient } from "egress-client";

const { SOCKET, URL = "", CREDENTIAL_PATTERN = "" } = process.env;

const egress = new EgressClient({ socketPath: SOCKET });
const sandbox = await egress.create();
const { path, commit } = await sandbox.clone({ url: URL, path: "copy", branch: "main", depth: 1 });
const readme = await sandbox.files.readText(`${path}/README`);
await sandbox.files.write("planted", "made-up-other\n");
const held = await sandbox.exec(["grep", "-rE", CREDENTIAL_PATTERN, "/workspace", "/etc", "/run"]);
console.log(JSON.stringify({ path, commit, readme, held: held.stdout }));
await sandbox.delete();
