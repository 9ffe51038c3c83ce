// Every call against the service.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import {
  AuthenticationError,
  ClientError,
  ConflictError,
  InvalidRequestError,
  newId,
  NotFoundError,
  PrudentClient,
  RejectedError,
  UnexpectedReplyError,
  UnreachableError,
} from "prudent-client";
import { campaign, client, KEY, URL_OF_SERVICE, withServer } from "./service.js";

const UUID_7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

test("a decision is made, read and rewarded", async () => {
  const campaign_id = await campaign();
  const decision = await client().select({ campaign_id });
  assert.match(decision.decision_id, UUID_7);
  assert.ok(["a", "b"].includes(decision.arm_id));
  assert.equal(decision.value, decision.arm_id);

  const receipt = await client().reward({ decision_id: decision.decision_id, reward: 1.25 });
  assert.deepEqual([receipt.reward, receipt.sequence, receipt.duplicate], [1.25, 1, false]);
  assert.equal((await client().reward({ decision_id: decision.decision_id, reward: 1.25 })).duplicate, true);

  const stored = await client().decision(decision.decision_id);
  assert.deepEqual([stored.arm_id, stored.rewarded], [decision.arm_id, true]);
  const report = await client().report(campaign_id);
  assert.deepEqual(report.arms.map((arm) => arm.plays).sort(), [0, 1]);
});

test("what a request says arrives as it was said", async () => {
  const campaign_id = await campaign({
    model: { type: "disjoint", dimension: 2, features: [{ name: "kilometres" }, { name: "rain" }] },
  });
  const context = { kilometres: 4, rain: 1 };
  const decision = await client().select({ campaign_id, context, exclude: ["a"], explain: true });
  assert.deepEqual([decision.arm_id, decision.reason], ["b", "only-arm"]);
  assert.equal(decision.arms?.[0]?.contributions?.[0]?.feature, "kilometres");
});

test("an infinite value is refused, and not taken for a missing one", async () => {
  const features = [{ name: "ratio", missing: "indicator" }];
  const campaign_id = await campaign({ model: { type: "disjoint", features } });
  for (const ratio of [Infinity, -Infinity]) {
    const request = { campaign_id, context: { ratio } };
    await assert.rejects(client().select(request), InvalidRequestError);
    assert.ok((await client().selectBatch([request]))[0] instanceof InvalidRequestError);
  }
  assert.equal((await client().select({ campaign_id, context: { ratio: 2 } })).campaign_id, campaign_id);
});

test("a subject keeps its arm, and rewards and events find its decision", async () => {
  const event = `order ${newId()}`;
  const campaign_id = await campaign({
    arms: [{ arm_id: "a", value: { colour: "#00f" } }, { arm_id: "b", value: { colour: "#0f0" } }],
    assignment: { sticky_seconds: 31_622_400 },
    reward: { events: { [event]: { value: "properties.value", scale: 0.5 } } },
  });
  const [subject, another] = [newId(), newId()];
  const first = await client().select({ campaign_id, subject, exclude: ["b"] });
  const again = await client().select({ campaign_id, subject, exclude: ["a"] });
  assert.deepEqual(
    [first.repeated, again.repeated, again.arm_available, again.decision_id],
    [false, true, false, first.decision_id],
  );
  assert.deepEqual(again.value, { colour: "#00f" });
  assert.equal((await client().reward({ campaign_id, subject, reward: 1 })).decision_id, first.decision_id);

  await client().select({ campaign_id, subject: another });
  const sent = { event, subject: another, value: 3, event_id: newId() };
  assert.deepEqual((await client().sendEvent(sent)).rewarded.map((one) => one.reward), [1.5]);
  assert.equal((await client().sendEvent(sent)).rewarded[0]?.duplicate, true);
  // 202: nobody's decision waits
  assert.deepEqual(await client().sendEvent({ event, subject: newId(), value: 3 }), { rewarded: [], refused: [] });
  const mixed = [{ event, subject: newId(), value: 1 }, { ...sent, value: 4 }];
  const [unmatched, conflict] = await client().sendEvents(mixed);
  assert.deepEqual((unmatched as { rewarded: unknown }).rewarded, []);
  assert.ok(conflict instanceof ConflictError);
  assert.equal(conflict.item, sent.event_id);
});

test("a deferred decision is a play once it is activated", async () => {
  const campaign_id = await campaign({ reward: { timeout_seconds: 3600, default: 0 } });
  const { decision_id } = await client().select({ campaign_id, activation: "deferred" });
  assert.equal((await client().decision(decision_id)).due_at, null);
  assert.equal(await client().activate(decision_id), undefined);
  await client().activate(decision_id);
  assert.notEqual((await client().decision(decision_id)).due_at, null);
});

test("batches of any length have an answer for each item, in its place", async () => {
  const campaign_id = await campaign();
  const requests = Array.from({ length: 1_203 }, (_, place) => ({ campaign_id, decision_id: `${campaign_id}-${place}` }));
  requests[1_100] = { campaign_id: newId(), decision_id: "of-no-campaign" };
  const made = await client().selectBatch(requests, { deadlineMs: 300_000 });
  assert.equal(made.length, requests.length);
  made.forEach((decision, place) => {
    if (place === 1_100) {
      assert.ok(decision instanceof NotFoundError);
      assert.equal(decision.item, "of-no-campaign");
    } else {
      assert.ok(!(decision instanceof RejectedError), String(decision));
      assert.equal(decision.decision_id, requests[place]?.decision_id);
    }
  });
  const [receipt, unknown] = await client().rewardBatch([
    { decision_id: `${campaign_id}-7`, reward: 1 },
    { decision_id: newId(), reward: 1 },
  ]);
  assert.ok(receipt && !(receipt instanceof RejectedError) && receipt.reward === 1);
  assert.ok(unknown instanceof NotFoundError);
  assert.deepEqual(await client().selectBatch([]), []);
});

test("an error has what the service says", async () => {
  await assert.rejects(client().select({ campaign_id: newId() }), (error) => {
    assert.ok(error instanceof NotFoundError && error instanceof RejectedError && error instanceof ClientError);
    assert.deepEqual([error.name, error.status, error.title], ["NotFoundError", 404, "Not found"]);
    assert.ok(error.detail && error.requestId);
    assert.ok(error.message.includes(error.detail));
    return true;
  });
  const campaign_id = await campaign();
  const decision_id = newId();
  await assert.rejects(client().select({ campaign_id, decision_id, context: [1], explore: "yes" as never }), (error) => {
    assert.ok(error instanceof InvalidRequestError);
    assert.deepEqual([error.status, error.errors[0]?.field], [422, "explore"]);
    assert.match(error.message, /^the service answered 422: .*explore/);
    return true;
  });
  await client().select({ campaign_id, decision_id });
  await assert.rejects(client().select({ campaign_id, decision_id, exclude: ["a"] }), ConflictError);
  const stranger = new PrudentClient(URL_OF_SERVICE, { apiKey: "wrong", deadlineMs: 60_000 });
  await assert.rejects(stranger.select({ campaign_id }), AuthenticationError);
});

test("what something else answers is not taken for a decision", async () => {
  const answers: [number, string, Record<string, string>][] = [
    [200, "<p>Welcome</p>", {}],
    [200, "[]", {}],
    [200, '{"ok": true}', {}],
    [200, "", {}],
    [302, "", { location: `${URL_OF_SERVICE}/select` }],
  ];
  for (const [status, body, headers] of answers) {
    await withServer(
      (response) => response.writeHead(status, headers).end(body),
      async (url, asked) => {
        const wrong = new PrudentClient(url, { apiKey: KEY, deadlineMs: 60_000 });
        await assert.rejects(wrong.select({ campaign_id: "c" }), UnexpectedReplyError);
        await assert.rejects(wrong.selectBatch([{ campaign_id: "c" }]), UnexpectedReplyError);
        assert.equal(asked.length, 2);
      },
    );
  }
});

test("a client that could never work is refused at once", async () => {
  for (const url of ["", "127.0.0.1:8000", "ftp://127.0.0.1", "http://me:secret@127.0.0.1", "http://127.0.0.1/?a=1"]) {
    assert.throws(() => new PrudentClient(url), TypeError);
  }
  for (const apiKey of ["", "a b", "ä", "a\nb"]) {
    assert.throws(() => new PrudentClient(URL_OF_SERVICE, { apiKey }), TypeError);
  }
  for (const number of [0, -1, Number.NaN, Infinity]) {
    assert.throws(() => new PrudentClient(URL_OF_SERVICE, { deadlineMs: number }), RangeError);
    assert.throws(() => new PrudentClient(URL_OF_SERVICE, { attempts: number }), RangeError);
    await assert.rejects(client().select({ campaign_id: "c" }, { deadlineMs: number }), RangeError);
  }
});

test("a path before the service's own is kept", async () => {
  await withServer(
    (response) => response.writeHead(204).end(),
    async (url, asked) => {
      await new PrudentClient(`${url}/prudent/`).activate("a/b c");
      assert.equal(asked[0]?.path, "/prudent/decisions/a%2Fb%20c/activate");
    },
  );
});

test("a caller may give up", async () => {
  await withServer(
    () => undefined,
    async (url) => {
      const controller = new AbortController();
      const call = new PrudentClient(url).select({ campaign_id: "c" }, { default: "a", signal: controller.signal });
      controller.abort(new Error("the visitor has left"));
      await assert.rejects(call, /the visitor has left/);
      await assert.rejects(client().select({ campaign_id: "c" }, { signal: controller.signal }), /has left/);
    },
  );
});

test("programs that use require have the same", () => {
  const required = createRequire(import.meta.url)("prudent-client") as typeof import("prudent-client");
  assert.deepEqual(Object.keys(required).sort(), Object.keys({
    AuthenticationError, ClientError, ConflictError, InvalidRequestError, NotFoundError, PrudentClient, RejectedError,
    UnexpectedReplyError, UnreachableError, newId, PermissionDeniedError: 0, UnavailableError: 0,
  }).sort());
  assert.match(required.newId(), UUID_7);
});

test("ids made later come later, and none comes twice", () => {
  const ids = Array.from({ length: 10_000 }, newId);
  assert.equal(new Set(ids).size, ids.length);
  const times = ids.map((id) => id.slice(0, 13));
  assert.deepEqual(times, [...times].sort());
});
