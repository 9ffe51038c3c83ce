// Answers that are lost, and services that are busy.
import assert from "node:assert/strict";
import { test } from "node:test";
import { newId, PrudentClient, RejectedError, UnavailableError, UnreachableError } from "prudent-client";
import { pauseMs } from "../dist/retries.js";
import { campaign, client, forward, KEY, reply, withServer } from "./service.js";

test("a decision whose answer was lost is made once", async () => {
  const campaign_id = await campaign();
  let lost = 0;
  await withServer(
    async (response, asked) => {
      const answer = await forward(asked);
      if (lost++ < 2) response.destroy();
      else reply(response, answer.status, await answer.json());
    },
    async (url, asked) => {
      const decision = await new PrudentClient(url, { deadlineMs: 60_000 }).select({ campaign_id });
      assert.equal(asked.length, 3);
      assert.equal(new Set(asked.map(({ body }) => body)).size, 1);
      assert.equal((await client().decision(decision.decision_id)).arm_id, decision.arm_id);
    },
  );
  const report = await client().report(campaign_id);
  assert.equal(report.arms.reduce((sum, arm) => sum + arm.plays, 0), 1);
});

test("an answer that breaks off is asked for again", async () => {
  let count = 0;
  await withServer(
    (response) => {
      if (count++ > 0) return reply(response, 200, { arm_id: "a" });
      response.writeHead(200, { "content-length": 100 }).write('{"arm_id"');
      return setTimeout(() => response.destroy(), 10);
    },
    async (url) => {
      assert.equal((await new PrudentClient(url, { deadlineMs: 60_000 }).select({ campaign_id: "c" })).arm_id, "a");
    },
  );
});

test("a busy service is asked again when it says, and others are not asked again", async () => {
  const started = performance.now();
  let count = 0;
  await withServer(
    (response) => (count++ === 0 ? reply(response, 503, {}, { "retry-after": "1" }) : reply(response, 200, { arm_id: "a" })),
    async (url, asked) => {
      await new PrudentClient(url, { deadlineMs: 60_000 }).select({ campaign_id: "c" });
      assert.equal(asked.length, 2);
      assert.ok(performance.now() - started >= 999);
    },
  );
  for (const status of [400, 401, 404, 409, 422, 500]) {
    await withServer(
      (response) => reply(response, status, { title: "No", detail: "because", status }),
      async (url, asked) => {
        await assert.rejects(new PrudentClient(url).select({ campaign_id: "c" }), { status, detail: "because" });
        assert.equal(asked.length, 1);
      },
    );
  }
});

test("there is no waiting for what would come too late", async () => {
  await withServer(
    (response) => reply(response, 503, { title: "Busy", detail: "shutting down" }, { "retry-after": "3600" }),
    async (url, asked) => {
      const busy = new PrudentClient(url, { deadlineMs: 600_000 });
      await assert.rejects(busy.select({ campaign_id: "c" }), UnavailableError);
      assert.equal(asked.length, 1);
      const decision = await busy.select({ campaign_id: "c" }, { default: "a" });
      assert.ok(decision.reason === "default" && decision.error instanceof UnavailableError);
      assert.equal(decision.error.detail, "shutting down");
    },
  );
});

test("attempts are counted", async () => {
  await withServer(
    (response) => response.destroy(),
    async (url, asked) => {
      const options = { attempts: 3, deadlineMs: 60_000 };
      await assert.rejects(new PrudentClient(url, options).reward({ decision_id: "d", reward: 1 }), UnreachableError);
      assert.equal(asked.length, 3);
      await assert.rejects(new PrudentClient(url, options).decision("d", { attempts: 1 }), UnreachableError);
      assert.equal(asked.length, 4);
    },
  );
});

test("pauses double up to a limit, and differ between clients", () => {
  for (const [attempt, longest] of [[1, 100], [2, 200], [5, 1_600], [20, 5_000]] as const) {
    const pauses = Array.from({ length: 1_000 }, () => pauseMs(attempt));
    assert.ok(Math.max(...pauses) <= longest && Math.min(...pauses) >= longest / 2, `attempt ${attempt}`);
    assert.ok(new Set(pauses).size > 900);
  }
  assert.equal(pauseMs(1, "7"), 7_000);
  const asked = pauseMs(1, new Date(Date.now() + 9_000).toUTCString());
  assert.ok(asked > 0 && asked <= 9_000);
  assert.equal(pauseMs(1, new Date(0).toUTCString()), 0);
  assert.ok(pauseMs(1, "soon") <= 100);
});

test("only the items that were refused are sent again", async () => {
  const first = new Set<string>();
  await withServer(
    (response, { body }) => {
      const { items } = JSON.parse(body) as { items: { decision_id: string }[] };
      const answers = items.map(({ decision_id }, place) => {
        const status = decision_id === "unknown" ? 404 : place % 2 && !first.has(decision_id) ? 503 : 200;
        first.add(decision_id);
        return { status, decision_id, sequence: 1 };
      });
      reply(response, 200, { items: answers });
    },
    async (url, asked) => {
      const ids = ["0", "1", "unknown", "3", "4"];
      const requests = ids.map((decision_id) => ({ decision_id, reward: 1 }));
      const receipts = await new PrudentClient(url).rewardBatch(requests);
      const found = receipts.map((one) => (one instanceof RejectedError ? one.name : one.decision_id));
      assert.deepEqual(found, ["0", "1", "NotFoundError", "3", "4"]);
      const sent = asked.map(({ body }) => (JSON.parse(body) as { items: unknown[] }).items.length);
      assert.deepEqual(sent, [5, 2]);
    },
  );
});

test("a batch stays below the service's limits", async () => {
  await withServer(
    (response, { body }) => {
      const { items } = JSON.parse(body) as { items: unknown[] };
      reply(response, 200, { items: items.map(() => ({ status: 200 })) });
    },
    async (url, asked) => {
      // 2,500 items of 4 kB in UTF-8, but of half as many characters
      const requests = Array.from({ length: 2_500 }, () => ({ campaign_id: "c", context: { text: "ä".repeat(2_000) } }));
      assert.equal((await new PrudentClient(url).selectBatch(requests, { deadlineMs: 60_000 })).length, 2_500);
      const sizes = asked.map(({ body }) => Buffer.byteLength(body));
      assert.ok(Math.max(...sizes) <= 4 * 2 ** 20 && sizes.length <= 4, String(sizes));
    },
  );
});

test("the key is sent, and headers of one's own", async () => {
  await withServer(
    (response) => reply(response, 200, { arm_id: "a" }),
    async (url, [...none]) => {
      assert.deepEqual(none, []);
      let sent: RequestInit | undefined;
      const observed: typeof fetch = (input, init) => fetch(input, (sent = init));
      await new PrudentClient(url, { apiKey: KEY, headers: { "x-team": "shop" }, fetch: observed }).select({
        campaign_id: newId(),
      });
      const headers = new Headers(sent?.headers);
      assert.deepEqual(["x-api-key", "x-team", "content-type"].map((name) => headers.get(name)), [KEY, "shop", "application/json"]);
    },
  );
});
