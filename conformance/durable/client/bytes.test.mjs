// What goes in comes out, byte for byte, and a cache learns of a close.
import { IdempotentProducer, stream } from "@durable-streams/client";
import assert from "node:assert/strict";
import test from "node:test";
import { fresh, json, nodes, streamURL } from "./cluster.mjs";

const messages = ["12345678901234567890", `{"b":1,"a":1.0,"b":1e400,"s":"\\ud83d"}`, `{ "spaced" : [ 1 , 2 ] }`, `"\\u0041\\/"`, "-0"];

test("JSON bytes are preserved", async () => {
  const name = fresh("bytes");
  const s = await json(streamURL(nodes[0], name)).create();
  const p = new IdempotentProducer(s, "p");
  for (const m of messages) p.append(m);
  await p.flush();
  for (const m of messages) await s.append(m);
  await s.close();
  const want = [...messages, ...messages];
  for (const node of nodes) {
    assert.equal(await (await fetch(streamURL(node, name))).text(), `[${want.join(",")}]`);
    const sse = await (await fetch(`${streamURL(node, name)}?offset=-1&live=sse`)).text();
    const data = sse.split("\n").filter((l, i, all) => all[i - 1] === "event: data").map((l) => l.slice("data:[".length, -1));
    assert.equal(data.join(","), want.join(","));
  }
});

test("the ETag changes when a stream is closed", async () => {
  const name = fresh("etag");
  const s = await json(streamURL(nodes[0], name)).create();
  await s.append("1");
  const get = (node, etag) => fetch(streamURL(node, name), { headers: etag ? { "if-none-match": etag } : {} });
  const before = (await get(nodes[1])).headers.get("etag");
  assert.ok(before);
  assert.equal((await get(nodes[2], before)).status, 304);
  await s.close();
  const after = await get(nodes[1], before);
  assert.equal(after.status, 200);
  assert.equal(after.headers.get("stream-closed"), "true");
  assert.notEqual(after.headers.get("etag"), before);
  assert.equal(await after.text(), "[1]");
  assert.equal((await get(nodes[2], after.headers.get("etag"))).status, 304);
});

test("a producer at a closed stream gives up after one request", async () => {
  const name = fresh("closed");
  const s = await json(streamURL(nodes[0], name)).create();
  await s.close();
  let requests = 0;
  const errors = [];
  const p = new IdempotentProducer(s, "p", {
    fetch: (...a) => { requests++; return fetch(...a); },
    onError: (e) => errors.push(e),
  });
  p.append("1");
  await p.flush().catch(() => {});
  assert.equal(requests, 1);
  assert.equal(errors.length, 1);
});

test("a long stream is read whole, in one answer or in several", async () => {
  const name = fresh("long");
  const url = streamURL(nodes[0], name);
  const s = await json(url).create();
  const want = Array.from({ length: 70_000 }, (_, i) => i);
  for (let i = 0; i < want.length; i += 10_000) {
    if (i === 60_000) { // what the published client reads with one request
      assert.deepEqual(await (await stream({ url, live: false })).json(), want.slice(0, i));
    }
    const part = JSON.stringify(want.slice(i, i + 10_000));
    assert.equal((await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: part })).status, 204);
  }
  await s.close();
  for (const node of nodes) assert.deepEqual(await (await stream({ url: streamURL(node, name) })).json(), want);
  const text = latin1(await (await fetch(streamURL(nodes[1], await bytesStream()))).arrayBuffer());
  assert.equal(text, chunk.repeat(8));
});

const chunk = "0123456789abcdef".repeat(1 << 14); // 256 KiB
const latin1 = (b) => Buffer.from(b).toString("latin1");

// bytesStream makes a stream of bytes that is longer than one page of a node.
async function bytesStream() {
  const name = fresh("octets");
  const headers = { "content-type": "application/octet-stream" };
  await fetch(streamURL(nodes[0], name), { method: "PUT", headers });
  for (let i = 0; i < 8; i++) await fetch(streamURL(nodes[2], name), { method: "POST", headers, body: chunk });
  return name;
}
