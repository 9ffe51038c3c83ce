// How late a default is, beyond its deadline, where a service is silent, refuses, is slow, breaks off or is busy:
// node built/deadlines.js COUNT. Prints the milliseconds of the latest by the kind of service.
import { createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { PrudentClient } from "prudent-client";

const COUNT = Number(process.argv[2]);
const TOGETHER = 20;
const DEADLINE_MS = 250;
const HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n";
const BUSY = "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 2\r\n\r\n{}";

const SERVICES: Record<string, (socket: Socket) => void> = {
  silent: () => undefined,
  refusing: (socket) => socket.destroy(),
  slow: (socket) => {
    socket.write(HEAD);
    const timer = setInterval(() => socket.write(" "), 20);
    socket.on("close", () => clearInterval(timer));
  },
  broken: (socket) => socket.once("data", () => socket.end(HEAD + "{")),
  busy: (socket) => socket.on("data", () => socket.write(BUSY)),
};

async function latest(url: string): Promise<number> {
  const client = new PrudentClient(url, { deadlineMs: DEADLINE_MS, attempts: 1_000 });
  let late = -Infinity;
  for (let done = 0; done < COUNT; done += TOGETHER) {
    const calls = Array.from({ length: Math.min(TOGETHER, COUNT - done) }, async () => {
      const started = performance.now();
      const decision = await client.select({ campaign_id: "c" }, { default: "a" });
      late = Math.max(late, performance.now() - started - DEADLINE_MS);
      if (decision.arm_id !== "a" || decision.reason !== "default") throw new Error(JSON.stringify(decision));
    });
    await Promise.all(calls);
  }
  return late;
}

const found: Record<string, number> = {};
for (const [kind, serve] of Object.entries(SERVICES)) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => undefined);
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  found[kind] = await latest(`http://127.0.0.1:${port}`);
  server.close();
  sockets.forEach((socket) => socket.destroy());
  // nothing listens there any more
  found["closed"] = Math.max(found["closed"] ?? -Infinity, await latest(`http://127.0.0.1:${port}`));
}
console.log(JSON.stringify(found));
