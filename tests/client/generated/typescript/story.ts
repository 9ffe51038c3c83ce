// A select and a reward with the generated types. Type-checked, then run: node built/story.js URL
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

declare const process: { argv: string[] };

const client = createClient<paths>({ baseUrl: process.argv[2] ?? "" });

const created = await client.POST("/campaigns", {
  body: {
    campaign_id: "typescript-story",
    risk: { measure: "expectile", level: 0.1 },
    model: { type: "shared", dimension: 2 },
    arms: [{ arm_id: "a", features: [1, 0] }, { arm_id: "b", features: [0, 1] }],
  },
});
if (!created.data) throw new Error(created.error.detail);
// The union of risks is told apart by its tag.
if (created.data.risk.measure !== "expectile") throw new Error(created.data.risk.measure);
const level: number | null | undefined = created.data.risk.level;

const selected = await client.POST("/select", {
  body: { campaign_id: "typescript-story", decision_id: "typescript-1", explain: true },
});
if (!selected.data) throw new Error(selected.error.detail);

const rewarded = await client.POST("/reward", {
  body: { decision_id: selected.data.decision_id, reward: 1.25 },
});
if (!rewarded.data) throw new Error(rewarded.error.detail);

// An error has the type of a problem.
const refused = await client.GET("/campaigns/{campaign_id}", { params: { path: { campaign_id: "nobody" } } });
const title: string | undefined = refused.error?.title;

const arms = selected.data.arms?.length ?? 0;
console.log(JSON.stringify({ level, arm: rewarded.data.arm_id, reward: rewarded.data.reward, arms, title }));
