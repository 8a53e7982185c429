/** Creates a sandbox over the port, or comes back to it, and prints what a command streams and what its API answers. */

import { EgressClient } from "egress-client";

const { URL = "", TOKEN = "", CA, FETCH = "", ACT } = process.env;

const egress = new EgressClient({ url: URL, token: TOKEN, ca: CA });
if (ACT === "create") await (await egress.create({ name: "typescript" })).files.write("kept", "by TypeScript");
const sandbox = await egress.get("typescript");
for await (const event of await sandbox.stream("echo first; cat kept")) {
  if (event.kind === "stdout") process.stdout.write(event.text ?? "");
}
process.stdout.write((await sandbox.exec(`${FETCH}; env`)).stdout);
egress.close();
