import * as http from "node:http";
import * as https from "node:https";

import { EgressError } from "./errors.js";
import { defaultSocketPath } from "./socket_path.js";

/** Where the API is: at a unix socket, by default the one of `egress up`, or at a port with a token. */
export type EndpointOptions =
  | { readonly socketPath?: string | undefined }
  | {
      /** Such as `https://boxes.example.com:8700`. */
      readonly url: string;
      /** The line in the file of `--api-token-file`. */
      readonly token: string;
      /** Certificates in PEM to trust instead of those of the system. */
      readonly ca?: string | undefined;
    };

/** Shorter than a server keeps a silent connection, so that it does not end under a request. */
const KEPT = { keepAlive: true, timeout: 5_000 };
const MAX_TOKEN_CHARS = 1024;

/** Opens requests to one server. Nothing that prints it shows the token. */
export class Endpoint {
  readonly #place: http.RequestOptions;
  readonly #agent: http.Agent;
  readonly #authorization: Readonly<Record<string, string>>;
  readonly #open: typeof http.request;

  constructor(options: EndpointOptions) {
    if ("url" in options) {
      const url = readUrl(options.url);
      const isSecure = url.protocol === "https:";
      this.#place = { host: url.hostname.replace(/^\[|\]$/g, ""), port: url.port || (isSecure ? 443 : 80) };
      this.#authorization = { authorization: `Bearer ${readToken(options.token)}` };
      this.#open = isSecure ? https.request : http.request;
      const trusted = options.ca === undefined ? {} : { ca: options.ca };
      // Said here, because a variable of the environment could switch the check off.
      const tls = { rejectUnauthorized: true, minVersion: "TLSv1.2", ...trusted } as const;
      this.#agent = isSecure ? new https.Agent({ ...KEPT, ...tls }) : new http.Agent(KEPT);
    } else {
      this.#place = { socketPath: options.socketPath ?? defaultSocketPath(process.env), host: "egress" };
      this.#authorization = {};
      this.#open = http.request;
      this.#agent = new http.Agent(KEPT);
    }
  }

  /** Open a request. Its connection is kept for the next one. A redirect is never followed. */
  open(method: string, path: string, headers: http.OutgoingHttpHeaders, signal?: AbortSignal): http.ClientRequest {
    const given = { ...this.#place, agent: this.#agent, method, path };
    return this.#open({
      ...given,
      headers: { ...headers, ...this.#authorization },
      ...(signal === undefined ? {} : { signal }),
    });
  }

  /** Close the connections that are kept. */
  close(): void {
    this.#agent.destroy();
  }
}

function readUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isBare = url?.pathname === "/" && !url.search && !url.hash && !url.username && !url.password;
  if (url === undefined || !isBare || !["http:", "https:"].includes(url.protocol)) {
    throw settings("this is not the address of an API", "write it like https://boxes.example.com:8700");
  }
  if (url.protocol === "http:" && !isLoopback(url.hostname)) {
    throw settings("without TLS the token would be open to the network", "write https://");
  }
  return url;
}

function isLoopback(host: string): boolean {
  // The class URL has brought numbers into their usual form.
  return host === "localhost" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}

function readToken(token: unknown): string {
  if (typeof token !== "string" || token.length > MAX_TOKEN_CHARS || !/^[\x21-\x7e]+$/.test(token)) {
    throw settings("this is not a token", "give the line of --api-token-file, without its line end");
  }
  return token;
}

function settings(message: string, hint: string): EgressError {
  return new EgressError("client.settings", message, hint);
}
