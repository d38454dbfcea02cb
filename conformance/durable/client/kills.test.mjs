// kill -9 of the leader under the published producer: nothing is lost, nothing is there twice, for
// whoever reads it afterwards and for whoever followed it.
import { IdempotentProducer } from "@durable-streams/client";
import assert from "node:assert/strict";
import test from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { balancer, fresh, json, kill, leader, nodes, readAll, start, streamURL, stubborn, tail } from "./cluster.mjs";

const kills = Number(process.env.RUNLOG_KILLS ?? 8);
const numbers = (n) => Array.from({ length: n }, (_, i) => i);

// produce appends 0, 1, 2, … with the published producer until stop, and returns how many.
async function produce(s, options, stop) {
  const errors = [];
  const p = new IdempotentProducer(s, "producer", { ...options, lingerMs: 1, onError: (e) => errors.push(e) });
  let n = 0;
  while (!stop.aborted) {
    p.append(String(n++));
    await sleep(10);
  }
  await p.flush();
  await p.close(String(n++));
  assert.deepEqual(errors, []);
  return n;
}

test(`${kills} kills of the leader under a producer`, async (t) => {
  const all = new AbortController();
  const name = fresh("balanced");
  const balanced = produce(await json(streamURL(balancer, name)).create(), { fetch: stubborn }, all.signal);
  const readers = ["sse", "long-poll"].map((live) => tail(streamURL(balancer, name), live));
  let acknowledged = 0;
  for (let i = 0; i < kills; i++) {
    const doomed = await leader();
    // Through a node that lives the published producer needs no help: the node holds what it sends
    // until there is a leader again.
    const one = new AbortController();
    const beside = fresh("beside");
    const s = await json(streamURL(nodes[(doomed + 1 + (i % 2)) % nodes.length], beside)).create();
    const producing = produce(s, {}, one.signal);
    await sleep(100 + 37 * (i % 5));
    await kill(doomed);
    await start(doomed);
    one.abort();
    const n = await producing;
    for (const node of nodes) assert.deepEqual(await readAll(streamURL(node, beside)), numbers(n), `kill ${i}, read from ${node}`);
    acknowledged += n;
  }
  all.abort();
  const n = await balanced;
  for (const r of readers) assert.deepEqual(await r, numbers(n));
  for (const node of nodes) assert.deepEqual(await readAll(streamURL(node, name)), numbers(n));
  t.diagnostic(`${kills} kills; ${n} messages through the balancer, ${acknowledged} through one node`);
});
