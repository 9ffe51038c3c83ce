// An application on a server: evaluates a flag for each line that it reads, and prints what the SDK made of it.
import { createInterface } from "node:readline";

import { OFREPProvider } from "@openfeature/ofrep-provider";
import { OpenFeature } from "@openfeature/server-sdk";

const [baseUrl, key] = process.argv.slice(2);
const headers = key ? [["Authorization", `Bearer ${key}`]] : [];
await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl, headers }));
const client = OpenFeature.getClient();

for await (const line of createInterface({ input: process.stdin })) {
  const { flag, fallback, context } = JSON.parse(line);
  const kind = typeof fallback;
  const details = await client[`get${kind[0].toUpperCase()}${kind.slice(1)}Details`](flag, fallback, context);
  console.log(JSON.stringify(details));
}
