// Chats of TanStack AI over a cluster, with its packages as they are published: a model that follows
// a script, hosts in processes of their own, readers as browsers have them.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { DurableStream } from "@durable-streams/client";
import { durableStreamConnection, materializeSnapshotFromDurableStream } from "@durable-streams/tanstack-ai-transport";
import { kill, startCluster } from "./cluster.mjs";
import { answer, opening } from "./model.mjs";
import { readRecords } from "./strict.mjs";

const answered = answer.join("");
const whole = opening + answered;
const leaseMs = 2000;
let cluster;
const hosts = [];

before(async () => { cluster = await startCluster(); });
after(async () => {
  await Promise.all(hosts.map((h) => kill(h.process)));
  await cluster?.stop();
});

// startHost starts an application's host that writes through a node.
async function startHost(holder, { node = 0, takeoverMs = 0 } = {}) {
  const process_ = spawn(process.execPath, ["host.mjs"], {
    cwd: import.meta.dirname,
    env: { ...process.env, RUNLOG: cluster.urls[node], HOLDER: holder, LEASE_MS: leaseMs, TAKEOVER_MS: takeoverMs },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const url = await new Promise((done, fail) => {
    process_.stdout.setEncoding("utf8").once("data", (line) => done(line.trim()));
    process_.once("exit", (code) => fail(new Error(`the host ended: ${code}`)));
  });
  const host = {
    process: process_,
    post: async (path) => {
      const r = await fetch(url + path, { method: "POST" });
      if (!r.ok) throw new Error(`${path}: ${r.status} ${await r.text()}`);
      return r;
    },
    url,
  };
  hosts.push(host);
  return host;
}

const native = (node, path) => fetch(`${cluster.urls[node]}${path}?consistency=linearizable`).then((r) => r.json());
const streamURL = (node, run) => `${cluster.urls[node]}/v1/stream/runs/${run}`;

// tab opens a chat as a page does: chunks is what it was given so far, text() what it shows.
function tab(node, run, options) {
  const leave = new AbortController();
  const chunks = [];
  let wake = () => {};
  const c = durableStreamConnection({ sendUrl: "http://unused.invalid/", readUrl: streamURL(node, run), ...options });
  const done = (async () => {
    for await (const chunk of c.subscribe(leave.signal)) {
      chunks.push(chunk);
      wake();
    }
  })().finally(() => wake());
  done.catch(() => {}); // until somebody asks
  const text = () => {
    let shown = "";
    for (const c of chunks) {
      if (c.type === "MESSAGES_SNAPSHOT") shown = c.messages.flatMap((m) => m.parts).map((p) => p.content).join("");
      if (c.type === "TEXT_MESSAGE_CONTENT") shown += c.delta;
    }
    return shown;
  };
  return {
    chunks, done, text,
    shows: async (want) => {
      while (text() !== want) {
        assert.ok(want.startsWith(text()), `shows ${JSON.stringify(text())}, which is no part of ${JSON.stringify(want)}`);
        await Promise.race([new Promise((r) => { wake = r; }), done.then(() => { if (text() !== want) throw new Error(`ended showing ${text()}`); })]);
      }
    },
    close: () => leave.abort(),
  };
}

// types is what happened, without how often a kind of event was repeated.
const types = (chunks) => chunks.map((c) => c.type).filter((t, i, all) => t !== all[i - 1]);
const stored = async (node, run) => (await native(node, `/v1/runs/${run}/events`)).events.map((e) => e.event);

test("a chat with a tool, end to end", async () => {
  const host = await startHost("whole");
  const r = await host.post("/api/chat?run=whole");
  assert.equal(r.status, 201);
  assert.equal((await r.json()).streamUrl, streamURL(0, "whole"));
  const page = tab(1, "whole", { emitSnapshotOnSubscribe: false });
  await host.post("/more?words=4");
  await page.done; // the run's end is the stream's
  assert.equal(page.text(), whole);
  assert.deepEqual(types(page.chunks), [
    "RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END",
    "TOOL_CALL_RESULT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED",
  ]);
  assert.deepEqual(page.chunks, await stored(2, "whole"));
  const { status, threadId } = await native(2, "/v1/runs/whole");
  assert.deepEqual([status, threadId], ["completed", "chat-whole"]);
  const { messages } = await native(2, "/v1/runs/whole/transcript");
  assert.equal(messages.at(-1).content, answered);
  const { toolCalls } = await native(2, "/v1/runs/whole/tools");
  assert.deepEqual(toolCalls.map((c) => [c.name, c.status, c.result]), [["lookup", "completed", `{"value":42}`]]);
});

test("a page reloaded in the middle of an answer, and a second tab", async () => {
  const host = await startHost("reload");
  await host.post("/api/chat?run=reload");
  const first = tab(0, "reload");
  await host.post("/more?words=2");
  await first.shows(opening + "The answer ");
  first.close();
  const again = tab(1, "reload"); // another node
  await again.shows(opening + "The answer ");
  assert.equal(again.chunks[0].type, "MESSAGES_SNAPSHOT");
  // What a server renders, and where its page goes on.
  const { messages, offset } = await materializeSnapshotFromDurableStream({ readUrl: streamURL(2, "reload") });
  assert.equal(messages.at(-1).parts[0].content, "The answer ");
  const second = tab(2, "reload", { initialOffset: offset });
  await host.post("/more?words=2");
  await Promise.all([again.done, second.done]);
  assert.equal(again.text(), whole);
  assert.equal(second.text(), "is 42.");
  assert.deepEqual(types(second.chunks), ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]);
});

test("a killed host's run is ended by the cluster", async () => {
  const host = await startHost("lost");
  await host.post("/api/chat?run=lost");
  const page = tab(1, "lost", { emitSnapshotOnSubscribe: false });
  await host.post("/more?words=1");
  await page.shows(opening + "The ");
  await kill(host.process);
  await page.done; // nobody closed the stream but the cluster
  assert.equal(page.text(), opening + "The ");
  assert.deepEqual(types(page.chunks).slice(-2), ["TEXT_MESSAGE_END", "RUN_ERROR"]);
  assert.equal(page.chunks.at(-1).code, "host_lost");
  assert.equal((await native(2, "/v1/runs/lost")).status, "lost");
});

test("a killed host's run is taken over by another", async () => {
  const window = { takeoverMs: 60_000 };
  const [first, next] = await Promise.all([startHost("first", window), startHost("next", { node: 1, ...window })]);
  await first.post("/api/chat?run=moved");
  const page = tab(2, "moved", { emitSnapshotOnSubscribe: false });
  await first.post("/more?words=2");
  await page.shows(opening + "The answer ");
  await kill(first.process);
  const replayed = await (await next.post("/api/takeover?run=moved")).json();
  assert.equal(replayed.matched + replayed.appended, replayed.tail);
  await page.done;
  assert.equal(page.text(), whole);
  assert.equal(page.chunks.filter((c) => c.type === "RUN_STARTED").length, 1);
  const run = await native(0, "/v1/runs/moved");
  assert.deepEqual([run.status, run.epoch], ["completed", 2]);
});

const record = (seq, chunk) => JSON.stringify({ v: 1, seq, chunk });
const append = (s, ...records) => Promise.all(records.map((r) => s.append(r)));
const delta = (s) => ({ type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: s });

test("a host that comes back from the dead can neither append nor close", async () => {
  const url = (node) => `${cluster.urls[node]}/streams/runs%2Fzombie`;
  const as = (node, headers) => new DurableStream({ url: url(node), contentType: "application/json", headers });
  const holder = (name) => ({ "Run-Holder": name, "Run-Lease-Ms": "1000", "Run-Takeover-Ms": "60000" });
  const zombie = as(0, holder("a"));
  await zombie.create();
  await append(zombie, record(1, { type: "RUN_STARTED" }), record(2, { type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant" }));
  const reading = [0, 1, 2].map(async (node) => {
    const all = [];
    for await (const r of readRecords(url(node))) all.push(r);
    return all;
  });
  await append(zombie, record(3, delta("one ")));
  const heir = as(1, holder("b"));
  while (!(await heir.create().then(() => true, (e) => {
    assert.equal(e.status, 403); // another's live lease
    return false;
  }))) await sleep(100); // poll
  const old = as(2, { ...holder("a"), "Run-Epoch": "1" });
  for (const s of [zombie, old, as(0, {}), as(1, { "Run-Holder": "a" })]) {
    await assert.rejects(append(s, record(4, delta("zombie "))), (e) => e.status === 403);
    await assert.rejects(s.close(), (e) => e.status === 403);
    await assert.rejects(s.close({ body: record(4, { type: "RUN_FINISHED" }) }), (e) => e.status === 403);
  }
  await append(heir, record(4, delta("two")), record(5, { type: "TEXT_MESSAGE_END", messageId: "m" }));
  await assert.rejects(append(zombie, record(6, delta("!"))), (e) => e.status === 403);
  await append(heir, record(6, { type: "RUN_FINISHED" }));
  await heir.close();
  await assert.rejects(old.close(), (e) => e.status === 403);
  for (const all of await Promise.all(reading)) {
    assert.deepEqual(all.map((r) => r.seq), [1, 2, 3, 4, 5, 6]);
    assert.equal(all.map((r) => r.chunk.delta ?? "").join(""), "one two");
  }
});

test("the cluster's last words are records where the run's are, even if there is no other", async () => {
  const url = (node, run) => `${cluster.urls[node]}/streams/runs%2F${run}`;
  const headers = { "Run-Holder": "short", "Run-Lease-Ms": "1000" };
  for (const run of ["silent", "cut"]) {
    const s = await DurableStream.create({ url: url(0, run), contentType: "application/json", headers });
    if (run === "cut") await append(s, record(7, { type: "RUN_STARTED" }), record(9, { type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "t" }));
  }
  const read = async (run) => {
    const all = [];
    for await (const r of readRecords(url(1, run))) all.push(r);
    return all;
  };
  const [silent, cut] = await Promise.all(["silent", "cut"].map(read));
  assert.deepEqual(silent.map((r) => r.seq), silent.map((_, i) => i + 1));
  assert.deepEqual(cut.map((r) => r.seq), [7, 9, 10, 11, 12]);
  assert.deepEqual(cut.slice(2).map((r) => r.chunk.type), ["TOOL_CALL_END", "TOOL_CALL_RESULT", "RUN_ERROR"]);
  for (const all of [silent, cut]) assert.equal(all.at(-1).chunk.code, "host_lost");
});
