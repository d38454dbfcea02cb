// Windows of live reads end, and their readers resume, without repeating or missing anything.
import assert from "node:assert/strict";
import test from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fresh, json, nodes, streamURL, tail } from "./cluster.mjs";

test("readers see every message once over many windows", async (t) => {
  const name = fresh("windows");
  const s = await json(streamURL(nodes[0], name)).create();
  const windows = { sse: 0, "long-poll": 0, empty: 0 };
  const counting = async (input, init) => {
    const live = new URL(String(input)).searchParams.get("live");
    if (live) windows[live]++;
    const r = await fetch(input, init);
    if (r.status === 204) windows.empty++;
    return r;
  };
  const readers = ["sse", "long-poll"].flatMap((live) => nodes.map((n) => tail(streamURL(n, name), live, { fetch: counting })));
  const want = [];
  const write = async (n) => {
    await s.append(JSON.stringify(n));
    want.push(n);
  };
  for (let pause = 0; pause < 2; pause++) {
    for (let i = 0; i < 150; i++) {
      await write(want.length);
      await sleep(i % 30);
    }
    await sleep(3000); // longer than both windows: they end on nothing new
  }
  await s.close({ body: "-1" });
  want.push(-1);
  for (const r of readers) assert.deepEqual(await r, want);
  // Six readers: each came back several times, and some to nothing.
  assert.ok(windows.sse >= 3 * 3 && windows.empty >= 3, JSON.stringify(windows));
  t.diagnostic(`${want.length} messages; ${windows.sse} windows of server-sent events, ${windows["long-poll"]} long polls, ${windows.empty} of them empty`);
});
