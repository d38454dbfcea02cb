// What is appended in the same step as the close reaches readers that wait at the tail.
import { IdempotentProducer } from "@durable-streams/client";
import assert from "node:assert/strict";
import test from "node:test";
import { fresh, json, nodes, streamURL, tail } from "./cluster.mjs";

const rounds = 100;

// parked follows a stream; waiting resolves once the live request is on its way, and answered when
// that is one that answers at once.
function parked(url, live) {
  let waits;
  const waiting = new Promise((resolve) => { waits = resolve; });
  const seen = tail(url, live, {
    fetch: async (input, init) => {
      const isLive = String(input).includes("live=");
      if (isLive && live === "long-poll") waits();
      const r = await fetch(input, init);
      if (isLive) waits();
      return r;
    },
  });
  return { waiting, seen };
}

async function round(i) {
  const name = fresh("parked");
  const on = (k) => streamURL(nodes[(i + k) % nodes.length], name);
  const s = await json(on(0)).create();
  await s.append(`{"n":0}`);
  const readers = ["sse", "long-poll"].flatMap((live) => nodes.map((_, k) => parked(on(k), live)));
  await Promise.all(readers.map((r) => r.waiting));
  if (i % 2) await s.close({ body: `{"n":1}` });
  else await new IdempotentProducer(s, "p").close(`{"n":1}`);
  for (const r of readers) assert.deepEqual(await r.seen, [{ n: 0 }, { n: 1 }]);
}

test(`append and close under parked readers, ${rounds} times`, async (t) => {
  for (let i = 0; i < rounds; i += 10) {
    await Promise.all(Array.from({ length: 10 }, (_, k) => round(i + k)));
  }
  t.diagnostic(`${rounds} of ${rounds}, with an SSE and a long-poll reader on each node`);
});
