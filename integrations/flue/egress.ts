// flue-blueprint: sandbox/egress@1
/**
 * The Egress adapter for Flue: each agent instance has a sandbox of its own on a machine of yours, behind rules that
 * say where it may connect, and credentials are added outside of it. The sandbox holds none of them.
 */
import { createHash } from "node:crypto";

import {
  type FileStat,
  type SandboxDriver,
  type SandboxFactory,
  SandboxDiedError,
  sandboxFromDriver,
  type ShellResult,
} from "@flue/runtime";
import {
  EgressClient,
  type EndpointOptions,
  isEgressError,
  type Sandbox as EgressSandbox,
  type SandboxSettings,
} from "egress-client";

export type EgressOptions = EndpointOptions & {
  /** The beginning of the sandboxes' names. Agents with the same one and the same instance id share a sandbox. */
  readonly prefix?: string;
  /** The settings of each sandbox, such as `profile` and `image`. Without a timeout an idle one sleeps. */
  readonly settings?: SandboxSettings;
};

type ExecOptions = NonNullable<Parameters<SandboxDriver["exec"]>[1]>;

const WORKSPACE = "/workspace";
/** Seconds without use until a sandbox sleeps; its files stay, and the next use wakes it. */
const IDLE_SECONDS = 1800;

/** A factory of sandboxes for `useSandbox`. The same instance id finds the same sandbox again. */
export function egress({ prefix = "flue", settings = {}, ...endpoint }: EgressOptions = {}): SandboxFactory {
  return {
    async createSandbox({ id }) {
      const wanted: SandboxSettings = { idle_timeout: IDLE_SECONDS, on_idle: "sleep", ...settings };
      const name = sandboxName(prefix, id);
      const sandbox = await new EgressClient(endpoint).create({ ...wanted, name });
      return sandboxFromDriver(new EgressDriver(sandbox), settings.workdir ?? WORKSPACE);
    },
  };
}

/** An id may be any text and may come from outside, so it cannot name a sandbox of somebody else. */
export function sandboxName(prefix: string, id: string): string {
  return `${prefix}-${createHash("sha256").update(id).digest("hex").slice(0, 32)}`;
}

class EgressDriver implements SandboxDriver {
  readonly #sandbox: EgressSandbox;

  constructor(sandbox: EgressSandbox) {
    this.#sandbox = sandbox;
  }

  readFile(path: string): Promise<string> {
    return alive("readFile", this.#sandbox.files.readText(path));
  }

  async readFileBuffer(path: string): Promise<Uint8Array> {
    return new Uint8Array(await alive("readFileBuffer", this.#sandbox.files.read(path)));
  }

  writeFile(path: string, content: string | Uint8Array): Promise<void> {
    return alive("writeFile", this.#sandbox.files.write(path, content));
  }

  async stat(path: string): Promise<FileStat> {
    const found = await alive("stat", this.#sandbox.files.stat(path));
    return {
      isFile: found.kind === "file",
      isDirectory: found.kind === "folder",
      isSymbolicLink: found.is_link,
      size: found.size,
      mtime: new Date(found.modified),
    };
  }

  async readdir(path: string): Promise<string[]> {
    return (await alive("readdir", this.#sandbox.files.list(path))).map((entry) => entry.name);
  }

  async exists(path: string): Promise<boolean> {
    return this.#sandbox.files.exists(path).catch(() => false);
  }

  mkdir(path: string, options: { recursive?: boolean } = {}): Promise<void> {
    return alive("mkdir", this.#sandbox.files.mkdir(path, { parents: options.recursive ?? false }));
  }

  rm(path: string, options: { recursive?: boolean; force?: boolean } = {}): Promise<void> {
    return alive("rm", this.#remove(path, options.recursive ?? false, options.force ?? false));
  }

  async exec(command: string, options: ExecOptions = {}): Promise<ShellResult> {
    const { cwd, env, timeoutMs, signal } = options;
    const timeout = timeoutMs === undefined ? undefined : timeoutMs / 1000;
    const result = await alive("exec", this.#sandbox.exec(command, { cwd, env, timeout, signal }));
    const notes = [
      result.timed_out ? `the command was ended after ${timeoutMs} ms\n` : "",
      result.truncated ? "the output was longer, and its rest is missing\n" : "",
    ];
    return { stdout: result.stdout, stderr: result.stderr + notes.join(""), exitCode: result.exit_code };
  }

  async #remove(path: string, recursive: boolean, force: boolean): Promise<void> {
    try {
      // The API removes an empty folder too, and `rm` removes none without `recursive`.
      if (!recursive && (await this.#isFolder(path))) throw new Error(`${path} is a directory: remove it with recursive`);
      await this.#sandbox.files.remove(path, { recursive });
    } catch (error) {
      if (!(force && isEgressError(error, "path.not_found"))) throw error;
    }
  }

  async #isFolder(path: string): Promise<boolean> {
    try {
      const found = await this.#sandbox.files.stat(path);
      return found.kind === "folder" && !found.is_link;
    } catch (error) {
      // A link that leads nowhere is no folder, and can be removed.
      if (isEgressError(error, "path.not_found")) return false;
      throw error;
    }
  }
}

/** A call to a sandbox that is gone says so in the way that Flue knows. */
async function alive<Value>(operation: string, call: Promise<Value>): Promise<Value> {
  try {
    return await call;
  } catch (error) {
    if (isEgressError(error, "sandbox.died", "sandbox.not_found")) {
      throw new SandboxDiedError({ operation, reason: "stopped" });
    }
    // Nobody answers for the sandbox: it is as good as gone.
    if (isEgressError(error, "client.connection")) throw new SandboxDiedError({ operation, reason: "probe_silent" });
    throw error;
  }
}
