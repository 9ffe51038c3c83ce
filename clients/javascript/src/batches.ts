import type { Deadline } from "./deadline.js";
import { encode } from "./encoding.js";
import { AGAIN, isObject, UnexpectedReplyError } from "./errors.js";
import { pauseMs } from "./retries.js";
import type { Transport } from "./transport.js";

const ITEMS_MAX = 1_000;
/** The service takes 4 MiB; a little is left for the frame around the items. */
const BYTES_MAX = 15 * 2 ** 18;

/** An item's part of the reply to a batch. */
export type Answer = Record<string, unknown> & { status: number };

/**
 * Send items in as few requests as the limits allow; their answers, in their order.
 *
 * Items that the service was too busy for are sent again, without the others. If the deadline comes first, so does
 * their answer of before.
 */
export async function sendBatch(
  transport: Transport,
  path: string,
  items: readonly object[],
  deadline: Deadline,
  attempts: number,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const part of parts(items.map(encode))) {
    answers.push(...(await sendPart(transport, path, part, deadline, attempts)));
  }
  return answers;
}

async function sendPart(
  transport: Transport,
  path: string,
  items: readonly string[],
  deadline: Deadline,
  attempts: number,
): Promise<Answer[]> {
  const answers = new Array<Answer>(items.length);
  let waiting = [...items.keys()];
  for (let attempt = 1; ; attempt++) {
    const body = `{"items":[${waiting.map((place) => items[place]).join(",")}]}`;
    const received = answersIn(await transport.send("POST", path, body, deadline, attempts), waiting.length, path);
    received.forEach((answer, index) => {
      answers[waiting[index]!] = answer;
    });
    waiting = waiting.filter((place) => AGAIN.has(answers[place]!.status));
    const pause = pauseMs(attempt);
    if (waiting.length === 0 || attempt >= attempts || pause >= deadline.leftMs) return answers;
    await deadline.pause(pause);
    deadline.throwIfGivenUp();
  }
}

function answersIn(reply: Record<string, unknown>, count: number, path: string): Answer[] {
  const items = reply["items"];
  if (!Array.isArray(items) || items.length !== count || !items.every(isAnswer)) {
    throw new UnexpectedReplyError(`the reply to ${path} does not match the items of the request`);
  }
  return items;
}

function isAnswer(item: unknown): item is Answer {
  return isObject(item) && typeof item["status"] === "number";
}

/** Cut encoded items into parts within the limits. */
function* parts(items: readonly string[]): Generator<string[]> {
  let part: string[] = [];
  let bytes = 0;
  for (const item of items) {
    const length = new TextEncoder().encode(item).length + 1;
    if (part.length === ITEMS_MAX || (part.length > 0 && bytes + length > BYTES_MAX)) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(item);
    bytes += length;
  }
  if (part.length > 0) yield part;
}
