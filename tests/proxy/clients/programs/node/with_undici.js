// undici with its agent for proxies, asked by a command line (see README.md). The agent reads the variables.

const { EnvHttpProxyAgent, WebSocket, fetch, setGlobalDispatcher } = require("undici");

setGlobalDispatcher(new EnvHttpProxyAgent({ allowH2: true, requestTls: { allowH2: true } }));
Object.assign(globalThis, { WebSocket, fetch });

require("./with_fetch.js");
