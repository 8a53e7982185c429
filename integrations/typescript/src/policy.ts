import type { ExplanationView, GrantSettings, GrantView, PolicyView, RequestSettings } from "./schema.js";
import type { CallOptions, Transport } from "./transport.js";

/** The rules of one sandbox: its grants, and what the proxy would do with a request. */
export class SandboxPolicy {
  readonly #transport: Transport;
  readonly #parts: { readonly name: string };

  constructor(transport: Transport, name: string) {
    this.#transport = transport;
    this.#parts = { name };
  }

  /** The grants in force, and what may be granted. */
  view(options?: CallOptions): Promise<PolicyView> {
    return this.#transport.call("show_policy", { parts: this.#parts }, options);
  }

  /** Allow or deny requests for a time, or choose the profile, within `delegate:` of the rules. */
  grant(settings: GrantSettings, options?: CallOptions): Promise<GrantView> {
    return this.#transport.call("grant", { parts: this.#parts, body: settings }, options);
  }

  /** Take a grant back. */
  undo(grant: string, options?: CallOptions): Promise<GrantView> {
    return this.#transport.call("undo_grant", { parts: { ...this.#parts, grant } }, options);
  }

  /** Decide on a request as the proxy would, and send nothing. */
  explain(request: RequestSettings, options?: CallOptions): Promise<ExplanationView> {
    return this.#transport.call("explain_request", { parts: this.#parts, body: request }, options);
  }
}
