// OpenFeature's own SDK with our provider, against the service.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Client, OpenFeature } from "@openfeature/server-sdk";
import { newId, PrudentClient } from "prudent-client";
import { PrudentProvider } from "prudent-client/openfeature";
import { campaign, client, withServer } from "./service.js";

const STICKY = { assignment: { sticky_seconds: 31_622_400 } };

/** An application of the SDK; lost has the events that could not be recorded. */
async function application(of = client()): Promise<{ flags: Client; lost: unknown[] }> {
  const lost: unknown[] = [];
  const domain = newId();
  await OpenFeature.setProviderAndWait(domain, new PrudentProvider(of, { onTrackError: (error) => lost.push(error) }));
  return { flags: OpenFeature.getClient(domain), lost };
}

function flag(...values: unknown[]): Promise<string> {
  return campaign({ ...STICKY, arms: values.map((value, place) => ({ arm_id: `arm-${place}`, value })) });
}

test("values of every type are the arms'", async () => {
  const { flags } = await application();
  const context = { targetingKey: newId() };
  const text = await flags.getStringDetails(await campaign(STICKY), "none", context);
  assert.ok(["a", "b"].includes(text.value) && text.value === text.variant && text.errorCode === undefined);
  assert.equal(text.reason, "SPLIT");
  const { decisionId, propensity } = text.flagMetadata;
  assert.equal(propensity, 0.5);
  assert.equal((await client().decision(decisionId as string)).arm_id, text.variant);

  assert.equal(await flags.getBooleanValue(await flag(true), false, context), true);
  assert.equal(await flags.getNumberValue(await flag(2.5), 0, context), 2.5);
  assert.deepEqual(await flags.getObjectValue(await flag({ columns: [1] }), {}, context), { columns: [1] });
});

test("a user keeps the variant, whatever else is known of the user", async () => {
  const { flags } = await application();
  const key = await campaign(STICKY);
  const targetingKey = newId();
  const ids = new Set<unknown>();
  for (let page = 0; page < 5; page++) {
    ids.add((await flags.getStringDetails(key, "none", { targetingKey, page })).flagMetadata["decisionId"]);
  }
  assert.equal(ids.size, 1);
});

test("an event of track is the reward of its user's decision", async () => {
  const { flags, lost } = await application();
  const event = `ordered ${newId()}`;
  const rules = { [event]: { value: "properties.revenue", scale: 0.5 } };
  const key = await campaign({ ...STICKY, reward: { events: rules } });
  const context = { targetingKey: newId() };
  const { flagMetadata } = await flags.getStringDetails(key, "none", context);
  flags.track(event, context, { value: 5, currency: "CHF" });
  flags.track(event, {}, { value: 7 }); // of nobody
  await OpenFeature.close(); // waits for what is being sent
  assert.equal((await client().decision(flagMetadata["decisionId"] as string)).rewarded, true);
  const { arms } = await client().report(key);
  assert.deepEqual(arms.map((arm) => arm.rewards.mean).filter((mean) => mean !== null), [2.5]);
  assert.match(String(lost), /^TypeError: ordered .*: the context has no targetingKey$/);
});

test("what goes wrong is the default with a reason, and no exception", async () => {
  const { flags } = await application();
  const context = { targetingKey: newId() };
  const details = [
    await flags.getStringDetails(newId(), "default", context),
    await flags.getStringDetails("no/such flag", "default", context),
    await flags.getNumberDetails(await campaign(STICKY), 7, context),
    await flags.getStringDetails(await campaign(STICKY), "default", {}),
  ];
  const codes = ["FLAG_NOT_FOUND", "FLAG_NOT_FOUND", "TYPE_MISMATCH", "TARGETING_KEY_MISSING"];
  assert.deepEqual(details.map((one) => one.errorCode as string), codes);
  assert.deepEqual(details.map((one) => [one.value, one.reason]), [
    ["default", "ERROR"],
    ["default", "ERROR"],
    [7, "ERROR"],
    ["default", "ERROR"],
  ]);
  assert.match(details[2]?.errorMessage ?? "", /is of type string, not number/);
});

test("a service that breaks is asked again only for a user", async () => {
  await withServer(
    (response) => response.destroy(),
    async (url, asked) => {
      const { flags } = await application(new PrudentClient(url, { attempts: 3, deadlineMs: 60_000 }));
      const details = await flags.getBooleanDetails("c", true, { targetingKey: "user-1" });
      assert.deepEqual([details.value, details.errorCode as string, asked.length], [true, "GENERAL", 3]);
      assert.equal(await flags.getBooleanValue("c", true), true);
      assert.equal(asked.length, 4);
      assert.equal(await flags.getBooleanValue("c", true, { targetingKey: "" }), true); // the service's nobody
      assert.equal(asked.length, 5);
    },
  );
});
