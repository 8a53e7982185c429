import type { ClientRequest, IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

import { MAX_ANSWER_BYTES, parseJson, readAll, readProblem } from "./answer.js";
import type { Endpoint } from "./endpoint.js";
import { connectionError } from "./errors.js";
import { EventStream, type ServerEvent } from "./event_stream.js";
import { OPERATIONS, type Operations } from "./schema.js";
import { handshakeHeaders, WebSocketConnection } from "./websocket.js";

export type OperationName = keyof Operations;
/** The calls whose answer is a value or nothing. All others answer with a stream. */
export type ValueOperation = {
  [Name in OperationName]: Operations[Name] extends { answer: unknown } ? Name : never;
}[OperationName];
export type Answer<Name extends ValueOperation> = Operations[Name]["answer"];
/** What a call takes: the parts of its path, its query and its body. */
export type Given<Name extends OperationName> = Omit<Operations[Name], "answer">;

/** Bytes to send: all at once, or piece by piece. */
export type ByteSource = string | Uint8Array | AsyncIterable<Uint8Array>;

export interface CallOptions {
  /** Ends the call, and closes its connection. */
  readonly signal?: AbortSignal | undefined;
}

interface Content {
  readonly body?: ByteSource | undefined;
  readonly headers?: OutgoingHttpHeaders;
}

type Parts = Readonly<Record<string, string | number>>;
type QueryValue = string | number | boolean | readonly string[] | null | undefined;
type Query = Readonly<Record<string, QueryValue>>;

/** A longer body waits until the server wants it, so that a refusal is read before the body is sent. */
const MAX_UNASKED_BYTES = 64 * 1024;

/** Makes the calls of the API, each with the types of the OpenAPI document. */
export class Transport {
  readonly #endpoint: Endpoint;

  constructor(endpoint: Endpoint) {
    this.#endpoint = endpoint;
  }

  /** Make a call, and return its answer. */
  async call<Name extends ValueOperation>(
    name: Name,
    given: Given<Name>,
    options: CallOptions = {},
  ): Promise<Answer<Name>> {
    return this.#value(name, given, jsonBody(given), options) as Promise<Answer<Name>>;
  }

  /** Make a call whose body is a stream of bytes. */
  async send<Name extends ValueOperation>(
    name: Name,
    given: Given<Name>,
    body: ByteSource,
    options: CallOptions = {},
  ): Promise<void> {
    await this.#value(name, given, { body }, options);
  }

  /** Make a call whose answer is bytes. The caller reads or destroys it. */
  async fetch<Name extends OperationName>(
    name: Name,
    given: Given<Name>,
    options: CallOptions = {},
    headers: OutgoingHttpHeaders = {},
  ): Promise<IncomingMessage> {
    const { response } = await this.#ask(name, given, { ...jsonBody(given), headers }, options);
    return response;
  }

  /** Make a call whose answer is events. It begins once the server follows, so that no later event is missed. */
  async follow<Name extends OperationName, Event>(
    name: Name,
    given: Given<Name>,
    read: (event: ServerEvent) => Event,
    options: CallOptions & { readonly last?: (event: Event) => boolean } = {},
  ): Promise<EventStream<Event>> {
    const response = await this.fetch(name, given, options, { accept: "text/event-stream" });
    return new EventStream(response, read, options);
  }

  /** Open the WebSocket of a call. */
  connect<Name extends OperationName>(
    name: Name,
    given: Given<Name>,
    options: CallOptions = {},
  ): Promise<WebSocketConnection> {
    return WebSocketConnection.open(this.#open(name, given, handshakeHeaders(), options), options.signal);
  }

  async #value(
    name: OperationName,
    given: Given<OperationName>,
    content: Content,
    options: CallOptions,
  ): Promise<unknown> {
    const { request, response } = await this.#ask(name, given, content, options);
    const data = await readAll(response, MAX_ANSWER_BYTES, options.signal);
    // An early answer leaves the rest of a body unsent, and the connection of no further use.
    if (!request.writableFinished) request.destroy();
    if (response.statusCode === 204) return undefined;
    return parseJson(data);
  }

  /** Send a request, and return it with its answer. Throws the problem of an answer that is no success. */
  async #ask(
    name: OperationName,
    given: Given<OperationName>,
    content: Content,
    options: CallOptions,
  ): Promise<{ request: ClientRequest; response: IncomingMessage }> {
    options.signal?.throwIfAborted();
    const headers = { ...content.headers, ...bodyHeaders(content.body, OPERATIONS[name][0]) };
    const request = this.#open(name, given, headers, options);
    const response = await exchange(request, content.body, options.signal);
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 300) return { request, response };
    const problem = await readProblem(response, options.signal);
    request.destroy();
    throw problem;
  }

  #open(
    name: OperationName,
    given: Given<OperationName>,
    headers: OutgoingHttpHeaders,
    options: CallOptions,
  ): ClientRequest {
    const [method, pattern] = OPERATIONS[name];
    const { parts, query } = given as { parts?: Parts; query?: Query };
    return this.#endpoint.open(method, target(pattern, parts, query), headers, options.signal);
  }
}

/** The path and the query of a request. */
export function target(pattern: string, parts: Parts = {}, query: Query = {}): string {
  const path = pattern.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(parts[name])));
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null) pairs.append(name, String(each));
    }
  }
  return pairs.size > 0 ? `${path}?${pairs}` : path;
}

function jsonBody(given: object): Content {
  return "body" in given
    ? { body: JSON.stringify(given.body), headers: { "content-type": "application/json" } }
    : {};
}

function bodyHeaders(body: ByteSource | undefined, method: string): OutgoingHttpHeaders {
  if (body === undefined) return method === "GET" || method === "HEAD" ? {} : { "content-length": 0 };
  const length = typeof body === "string" || body instanceof Uint8Array ? Buffer.byteLength(body) : undefined;
  const framing = length === undefined ? { "transfer-encoding": "chunked" } : { "content-length": length };
  return length !== undefined && length <= MAX_UNASKED_BYTES ? framing : { ...framing, expect: "100-continue" };
}

/** Send the body, and wait for the head of the answer, which may come before the body is complete. */
function exchange(
  request: ClientRequest,
  body: ByteSource | undefined,
  signal: AbortSignal | undefined,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    let sourceError: unknown;
    request.on("response", resolve);
    request.on("error", (error) => reject(sourceError ?? connectionError(error, signal)));
    const write = (): void => {
      if (body === undefined || typeof body === "string" || body instanceof Uint8Array) {
        request.end(body);
        return;
      }
      const remembered = rememberError(body, (error) => (sourceError = error));
      // A failure of either side ends the request, which says it above.
      pipeline(Readable.from(remembered), request).catch(() => undefined);
    };
    if (request.hasHeader("expect")) {
      request.on("continue", write);
      request.flushHeaders();
    } else {
      write();
    }
  });
}

async function* rememberError(
  source: AsyncIterable<Uint8Array>,
  remember: (error: unknown) => void,
): AsyncGenerator<Uint8Array> {
  try {
    yield* source;
  } catch (error) {
    remember(error);
    throw error;
  }
}
