/** Prints the socket for each of the environments on the command line; the type of the error where there is none. */

import { defaultSocketPath, isEgressError } from "egress-client";

const environments: Record<string, string>[] = JSON.parse(process.argv[2] ?? "[]");
console.log(
  JSON.stringify(
    environments.map((environment) => {
      try {
        return defaultSocketPath(environment);
      } catch (error) {
        return isEgressError(error) ? error.type : String(error);
      }
    }),
  ),
);
