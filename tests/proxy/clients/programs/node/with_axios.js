// axios, asked by a command line (see README.md). It reads the variables by itself.

const { createReadStream, statSync } = require("node:fs");
const axios = require("axios");

async function main(verb, url, file) {
  const asked = { url, responseType: "stream", maxBodyLength: Infinity };
  if (verb === "put") {
    const headers = { "content-length": statSync(file).size };
    Object.assign(asked, { method: "put", data: createReadStream(file), headers });
  }
  const answer = await axios(asked);
  for await (const part of answer.data) process.stdout.write(part);
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error.message, error.response?.statusText);
  process.exitCode = 1;
});
