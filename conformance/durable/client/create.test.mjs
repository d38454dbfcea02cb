// Who created a stream through one node finds it on every other at once.
import assert from "node:assert/strict";
import test from "node:test";
import { fresh, json, nodes, readAll, streamURL } from "./cluster.mjs";

test("256 streams at once, created, appended to and read through different nodes", async () => {
  const on = (i, name) => streamURL(nodes[i % nodes.length], name);
  await Promise.all(Array.from({ length: 256 }, async (_, i) => {
    const name = fresh("create");
    // The client's own methods repeat some failures; these show each answer as it is.
    const put = await fetch(on(i, name), { method: "PUT", headers: { "content-type": "application/json" } });
    assert.equal(put.status, 201);
    const post = await fetch(on(i + 1, name), { method: "POST", headers: { "content-type": "application/json" }, body: `{"n":${i}}` });
    assert.equal(post.status, 204, await post.text());
    assert.deepEqual(await readAll(on(i + 2, name)), [{ n: i }]);
    await json(on(i, name)).append(`"second"`);
    assert.deepEqual(await readAll(on(i + 1, name)), [{ n: i }, "second"]);
  }));
});

test("of many creations of one stream one is the first", async () => {
  for (let i = 0; i < 10; i++) {
    const name = fresh("race");
    const answers = await Promise.all(Array.from({ length: 24 }, (_, k) =>
      fetch(streamURL(nodes[k % nodes.length], name), { method: "PUT", headers: { "content-type": "application/json" } })));
    const statuses = answers.map((r) => r.status).sort();
    assert.deepEqual(statuses, [...Array(23).fill(200), 201]);
  }
});
