/** Calls a port with a token and a certificate of its own, and prints what each way to do it brings. */

import { EgressClient, isEgressError } from "egress-client";

const { URL = "", TOKEN = "", CA } = process.env;

async function outcome(work: (egress: EgressClient) => Promise<string>, token: string, ca?: string): Promise<string> {
  const egress = new EgressClient({ url: URL, token, ca });
  try {
    return await work(egress);
  } catch (error) {
    return isEgressError(error) ? error.type : String(error);
  } finally {
    egress.close();
  }
}

const find = async (egress: EgressClient): Promise<string> => (await egress.get("one")).name;
const owner = async (egress: EgressClient): Promise<string> => String(await egress.call("shut_down", {}));

console.log(
  JSON.stringify({
    right: await outcome(find, TOKEN, CA),
    "wrong token": await outcome(find, `x${TOKEN.slice(1)}`, CA),
    "unknown authority": await outcome(find, TOKEN),
    "only at the socket": await outcome(owner, TOKEN, CA),
  }),
);
