// The loop that the client's documentation begins with: rank, show, reward; then an event that is shown later, and a
// page with two slots. Only the endpoint and the key are ours. Prints what it was told as JSON. The client drops the
// path of an endpoint, so what it is given has the campaign in its query; requests by hand keep the path.
import { PersonalizerClient } from "@azure/cognitiveservices-personalizer";
import { CognitiveServicesCredentials } from "@azure/ms-rest-azure-js";

const [service, campaign, key] = process.argv.slice(2);
const endpoint = `${service}/personalizer/${campaign}`;
const client = new PersonalizerClient(new CognitiveServicesCredentials(key), `${service}?campaign=${campaign}`);

const actions = [
  { id: "pasta", features: [{ taste: "salty", spiceLevel: "medium" }, { nutritionLevel: 5, cuisine: "italian" }] },
  { id: "ice cream", features: [{ taste: "sweet", spiceLevel: "none" }, { nutritionalLevel: 2 }] },
  { id: "juice", features: [{ taste: "sweet", spiceLevel: "none" }, { nutritionLevel: 5 }, { drink: true }] },
  { id: "salad", features: [{ taste: "salty", spiceLevel: "low" }, { nutritionLevel: 8 }] },
];

async function loop(eventId) {
  const request = {
    eventId,
    actions,
    contextFeatures: [{ timeOfDay: "morning" }, { user: { profile: { tastes: "sweet" }, visits: 3 } }],
    excludedActions: ["juice"],
    deferActivation: false,
  };
  const ranked = await client.rank(request);
  await client.events.reward(ranked.eventId, { value: 1.0 });
  await client.events.reward(ranked.eventId, { value: 0.25 }); // a second one; anything but a 204 would be raised
  const again = await client.rank(request);
  return { ranked: plain(ranked), again: plain(again) };
}

async function shownLater() {
  const ranked = await client.rank({ actions, contextFeatures: [{ timeOfDay: "evening" }], deferActivation: true });
  await client.events.activate(ranked.eventId);
  return plain(ranked);
}

const plain = ({ ranking, eventId, rewardActionId }) => ({ ranking, eventId, rewardActionId });

async function twoSlots(eventId) {
  const body = {
    eventId,
    actions,
    contextFeatures: [{ timeOfDay: "night" }],
    slots: [
      { id: "Big Hero", features: [{ size: "large" }], excludedActions: ["salad"], baselineAction: "pasta" },
      { id: "sidebar", features: [{ size: "small" }], excludedActions: [], baselineAction: "ice cream" },
    ],
    deferActivation: false,
  };
  const filled = await post("multislot/rank", body, 201);
  const reward = filled.slots.map((slot) => ({ slotId: slot.id, value: 0.5 }));
  await post(`multislot/events/${encodeURIComponent(filled.eventId)}/reward`, { reward }, 204);
  return filled;
}

async function post(path, body, status) {
  const reply = await fetch(`${endpoint}/personalizer/v1.1-preview.3/${path}`, {
    method: "POST",
    headers: { "ocp-apim-subscription-key": key, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await reply.text();
  if (reply.status !== status) throw new Error(`${reply.status}: ${text}`);
  return text === "" ? null : JSON.parse(text);
}

async function refused() {
  try {
    await client.rank({ actions: [{ id: "pasta", features: [{ taste: 7 }] }] });
  } catch (error) {
    return { status: error.statusCode, code: error.body.error.code, message: error.body.error.message };
  }
}

console.log(
  JSON.stringify({
    loop: await loop("a visit, 1/2"),
    later: await shownLater(),
    slots: await twoSlots("a page"),
    refused: await refused(),
  }),
);
