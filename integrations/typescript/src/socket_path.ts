import { join } from "node:path";

import { EgressError } from "./errors.js";

type Environment = Readonly<Record<string, string | undefined>>;

/** The unix socket of `egress up` for these variables: by the rules of its runtime folder. */
export function defaultSocketPath(env: Environment): string {
  return join(runtimeFolder(env), "sandboxes.sock");
}

function runtimeFolder(env: Environment): string {
  if (env["EGRESS_RUNTIME_DIR"]) return env["EGRESS_RUNTIME_DIR"];
  const given = absolute(env["XDG_RUNTIME_DIR"]);
  return given === undefined ? join(stateFolder(env), "run") : join(given, "egress");
}

function stateFolder(env: Environment): string {
  if (env["EGRESS_STATE_DIR"]) return env["EGRESS_STATE_DIR"];
  const given = absolute(env["XDG_STATE_HOME"]);
  if (given !== undefined) return join(given, "egress");
  const home = absolute(env["HOME"]);
  if (home === undefined) {
    throw new EgressError("client.settings", "this user has no home directory", "name the socket with socketPath");
  }
  return join(home, ".local/state/egress");
}

/** A path that begins at the root. Any other would mean another folder after each change of folders. */
function absolute(path: string | undefined): string | undefined {
  return path?.startsWith("/") ? path : undefined;
}
