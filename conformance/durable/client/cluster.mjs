// The cluster that main.go runs, and what tests do with it.
import { DurableStream, stream } from "@durable-streams/client";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

export const nodes = process.env.RUNLOG_NODES.split(",");
export const balancer = process.env.RUNLOG_BALANCER;
const control = process.env.RUNLOG_CONTROL;

// streamURL returns where a stream is on a node, or behind the balancer.
export const streamURL = (base, name) => `${base}/v1/stream/${name}`;

export const fresh = (what) => `${what}-${randomUUID()}`;

async function ask(method, path) {
  const r = await fetch(control + path, { method });
  const text = await r.text();
  if (!r.ok) throw new Error(`${path}: ${text}`);
  return text;
}

export const leader = async () => Number(await ask("GET", "/leader"));
export const kill = (i) => ask("POST", `/kill/${i}`);
export const start = (i) => ask("POST", `/start/${i}`);

// json returns a handle of a JSON stream.
export const json = (url, options = {}) => new DurableStream({ url, contentType: "application/json", ...options });

// readAll returns what a stream holds now, message by message. With live: false the published client
// would read one answer and no further.
export const readAll = async (url) => (await stream({ url, json: true })).json();

// stubborn is a fetch that sends again what got no answer. The published producer gives up what a
// broken connection took with it; its numbers make the repetition safe.
export async function stubborn(input, init) {
  for (;;) {
    try {
      const r = await fetch(input, init);
      if (r.status < 502) return r;
    } catch (e) {
      if (init?.signal?.aborted) throw e;
    }
    await sleep(50);
  }
}

// tail follows a JSON stream to its close and returns its messages. When the connection breaks, the
// published client fails; a new one goes on from the last offset that it told.
export function tail(url, live, options) {
  const seen = follow(url, live, options);
  seen.catch(() => {}); // whoever awaits it hears of it, maybe later
  return seen;
}

async function follow(url, live, { fetch: send = fetch } = {}) {
  const seen = [];
  let offset = "-1";
  for (let breaks = 0; ; breaks++) {
    try {
      const r = await stream({ url, live, offset, json: true, fetch: send });
      await new Promise((resolve, reject) => {
        r.subscribeJson((b) => {
          seen.push(...b.items);
          offset = b.offset;
          if (b.streamClosed) resolve();
        });
        // The client has read the end a little before its subscriber has.
        r.closed.then(() => sleep(5000)).then(() => reject(new Error(`the tail of ${url} ended at ${offset}, before the stream did`)), reject);
      });
      return seen;
    } catch (e) {
      if (breaks > 500 || !/terminated|fetch failed|socket|ECONN/.test(`${e?.message} ${e?.cause?.message}`)) throw e;
      await sleep(20);
    }
  }
}
