import { Endpoint, type EndpointOptions } from "./endpoint.js";
import type { EventStream } from "./event_stream.js";
import { type AuditLine, followLog, type LogPage, type LogQuery, readLog } from "./log.js";
import { Sandbox } from "./sandbox.js";
import type {
  CheckView,
  ExplanationView,
  FleetView,
  PreviewView,
  ProfileRequest,
  ProxyView,
  ReloadView,
  SandboxEventView,
  SandboxSettings,
  SandboxView,
  SecretView,
  SnapshotSettings,
  SnapshotView,
  SuggestionView,
} from "./schema.js";
import { type Answer, type CallOptions, type Given, Transport, type ValueOperation } from "./transport.js";

/** A server of the Egress API. Without options it is the `egress up` of this user, at its unix socket. */
export class EgressClient {
  readonly #endpoint: Endpoint;
  readonly #transport: Transport;

  constructor(options: EndpointOptions = {}) {
    this.#endpoint = new Endpoint(options);
    this.#transport = new Transport(this.#endpoint);
  }

  /** Describe the server. */
  about(options?: CallOptions): Promise<FleetView> {
    return this.call("about", {}, options);
  }

  /**
   * Create a sandbox, or find the one of this name that has the same settings. Other settings are a problem of
   * the type `sandbox.differs`. Without a name it gets a random one.
   */
  async create(settings: SandboxSettings & { name?: string | undefined } = {}, options?: CallOptions): Promise<Sandbox> {
    const { name, ...body } = settings;
    const view =
      name === undefined
        ? await this.call("create_sandbox", { body }, options)
        : await this.call("ensure_sandbox", { parts: { name }, body }, options);
    return this.sandbox(view.name);
  }

  /** The sandbox of a name, which has to exist. */
  async get(name: string, options?: CallOptions): Promise<Sandbox> {
    await this.call("get_sandbox", { parts: { name } }, options);
    return this.sandbox(name);
  }

  /** A handle of a sandbox, without a call: the first use finds out whether it exists. */
  sandbox(name: string): Sandbox {
    return new Sandbox(this.#transport, name);
  }

  /** List sandboxes, those with all of these labels. */
  async list(labels: Readonly<Record<string, string>> = {}, options?: CallOptions): Promise<readonly SandboxView[]> {
    const label = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
    return (await this.call("list_sandboxes", { query: { label } }, options)).sandboxes;
  }

  /** Follow the events of all sandboxes, from now on. */
  events(options?: CallOptions): Promise<EventStream<SandboxEventView>> {
    return this.#transport.follow("events", {}, (event) => event.data as SandboxEventView, options);
  }

  /** Keep the files of a sandbox under a name. */
  snapshot(name: string, settings: SnapshotSettings, options?: CallOptions): Promise<SnapshotView> {
    return this.call("create_snapshot", { parts: { name }, body: settings }, options);
  }

  async listSnapshots(options?: CallOptions): Promise<readonly SnapshotView[]> {
    return (await this.call("list_snapshots", {}, options)).snapshots;
  }

  deleteSnapshot(name: string, options?: CallOptions): Promise<void> {
    return this.call("delete_snapshot", { parts: { name } }, options);
  }

  /** List the ports that browsers can open. */
  async listPreviews(options?: CallOptions): Promise<readonly PreviewView[]> {
    return (await this.call("list_previews", {}, options)).previews;
  }

  // For the operator, and only at the unix socket

  /** Read the log of this run, newest lines first. */
  log(query: LogQuery = {}, options?: CallOptions): Promise<LogPage> {
    return readLog(this.#transport, "query_log", { query }, options);
  }

  /** Follow the log of this run. */
  followLog(query: LogQuery = {}, options?: CallOptions): Promise<EventStream<AuditLine>> {
    return followLog(this.#transport, "query_log", { query }, options);
  }

  /** The smallest change of the rules that would allow a denied request, by its id in the log. */
  suggest(request: string, options?: CallOptions): Promise<SuggestionView> {
    return this.call("suggest_rule", { query: { request } }, options);
  }

  /** Find every mistake in the text of a rule file, which is not put in force. */
  checkRules(text: string, options?: CallOptions): Promise<CheckView> {
    return this.call("check_rules", { body: { text } }, options);
  }

  /** Decide on a request of any sandbox of a profile as the proxy would, and send nothing. */
  explain(request: ProfileRequest, options?: CallOptions): Promise<ExplanationView> {
    return this.call("explain_for_profile", { body: request }, options);
  }

  /** Have the proxy read its rule files again; files with a mistake change nothing. */
  reloadRules(options?: CallOptions): Promise<ReloadView> {
    return this.call("reload_rules", {}, options);
  }

  /** The status of the proxy: its rules, its requests, and what is revoked. */
  proxy(options?: CallOptions): Promise<ProxyView> {
    return this.call("get_proxy", {}, options);
  }

  /** The secrets of the rules, by name, and whether each was resolved; never a value. */
  async listSecrets(options?: CallOptions): Promise<readonly SecretView[]> {
    return (await this.call("list_secrets", {}, options)).secrets;
  }

  // Any call

  /** Make any call of the API that answers with a value, by its name in the OpenAPI document. */
  call<Name extends ValueOperation>(name: Name, given: Given<Name>, options?: CallOptions): Promise<Answer<Name>> {
    return this.#transport.call(name, given, options);
  }

  /** Close the connections that are kept. Calls under way fail. */
  close(): void {
    this.#endpoint.close();
  }
}
