// What the tests of this folder share: the service that runs for them, and servers that misbehave on order.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { newId, PrudentClient } from "prudent-client";

/** The service, and a key of an admin. */
export const URL_OF_SERVICE = variable("PRUDENT_URL");
export const KEY = variable("PRUDENT_API_KEY");

function variable(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: see tests/clients/test_javascript.py`);
  return value;
}

export function client(): PrudentClient {
  return new PrudentClient(URL_OF_SERVICE, { apiKey: KEY, deadlineMs: 60_000 });
}

/** A new campaign with the arms a and b; its id. */
export async function campaign(changes: object = {}): Promise<string> {
  const campaign_id = newId();
  await client().request("POST", "/campaigns", {
    campaign_id,
    risk: { measure: "mean" },
    model: { type: "multi-armed" },
    arms: [{ arm_id: "a" }, { arm_id: "b" }],
    ...changes,
  });
  return campaign_id;
}

/** A request that arrived at a server of ours. */
export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

type Answer = (response: ServerResponse, asked: Asked) => unknown;

/** Run with a server on loopback that answers so; it has what was asked. */
export async function withServer(
  answer: Answer,
  run: (url: string, asked: readonly Asked[]) => Promise<void>,
): Promise<void> {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = "", url: path = "", headers } = request;
    const body = Buffer.concat(chunks).toString();
    asked.push({ method, path, headers, body });
    await answer(response, { method, path, headers, body });
  });
  const url = await listen(server);
  try {
    await run(url, asked);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Answer with JSON. */
export function reply(response: ServerResponse, status: number, body: unknown, headers = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

/** What the service says to the same request. */
export async function forward(asked: Asked): Promise<Response> {
  const headers = { "content-type": "application/json", "x-api-key": KEY };
  return fetch(URL_OF_SERVICE + asked.path, { method: asked.method, headers, body: asked.body });
}
