// Published clients over HTTP, at a cluster of three real processes: the AG-UI agent with its verifier,
// the EventSource of npm, and people who answer an agent's question at the same time.
import assert from "node:assert/strict";
import { connect as dial, createServer } from "node:net";
import { after, before, test } from "node:test";
import { HttpAgent } from "@ag-ui/client";
import { EventSource } from "eventsource";
import { sleep, until } from "../browser/cluster.mjs";
import { startCluster } from "../tanstack/cluster.mjs"; // at ports that are free

let cluster;
before(async () => {
  cluster = await startCluster();
});
after(() => cluster?.stop());

// node is the address of the n-th node, counted around; every request of a test goes to another one.
const node = (n) => cluster.urls[n % cluster.urls.length];
let turn = 0;
async function call(method, path, body, at = turn++) {
  const r = await fetch(node(at) + path, { method, body: body && JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  const text = await r.text();
  return { status: r.status, body: text && JSON.parse(text) };
}
async function ok(method, path, body) {
  const r = await call(method, path, body);
  assert.ok(r.status < 300, `${method} ${path}: ${r.status} ${JSON.stringify(r.body)}`);
  return r.body;
}
const create = (threadId, runId, more) => ok("POST", "/v1/runs", { threadId, runId, ...more });
const append = (run, ...events) => ok("POST", `/v1/runs/${run}/events`, events);
const threadOf = (id) => ok("GET", `/v1/threads/${id}?consistency=linearizable`);
const log = async (run) => (await ok("GET", `/v1/runs/${run}/events?consistency=linearizable`)).events.map((e) => e.event);

// say is a message of an assistant in n pieces.
const say = (messageId, n) => [
  { type: "TEXT_MESSAGE_START", messageId, role: "assistant" },
  ...Array.from({ length: n }, (_, i) => ({ type: "TEXT_MESSAGE_CONTENT", messageId, delta: `${i} ` })),
  { type: "TEXT_MESSAGE_END", messageId },
];
const use = (toolCallId, parentMessageId) => [
  { type: "TOOL_CALL_START", toolCallId, toolCallName: "search", parentMessageId },
  { type: "TOOL_CALL_ARGS", toolCallId, delta: '{"q":' },
  { type: "TOOL_CALL_ARGS", toolCallId, delta: '"logs"}' },
  { type: "TOOL_CALL_END", toolCallId },
];
const result = (toolCallId) => ({ type: "TOOL_CALL_RESULT", messageId: toolCallId + "-result", toolCallId, content: "found", role: "tool" });
const ask = (id, text) => ({ input: { messages: [{ id, role: "user", content: text }] } });
// finish ends a run; the published client wants the ids.
const finish = (threadId, runId, outcome = { type: "success" }) => ({ type: "RUN_FINISHED", threadId, runId, outcome });

// Agent is the published one. Its connect has no transport of its own: every application says where
// to POST, which is what run does.
class Agent extends HttpAgent {
  connect(input) {
    return this.run(input);
  }
}

// follow starts an agent that reads url and returns once it knows where the conversation stands:
// {agent, done}, done being what connectAgent promises. get asks with GET, as a page that joins a run.
async function follow(threadId, url, { get = false, held = [] } = {}) {
  const agent = new Agent({
    url, threadId, initialMessages: structuredClone(held),
    fetch: get ? (to, { headers, signal }) => fetch(to, { headers, signal }) : undefined,
  });
  let joined;
  const told = new Promise((resolve) => { joined = resolve; });
  const done = agent.connectAgent({}, { onMessagesSnapshotEvent: () => joined() });
  await Promise.race([told, done]);
  return { agent, done };
}
const connectTo = (threadId, n, held) => follow(threadId, `${node(n)}/v1/threads/${threadId}/connect`, { held });
const joinRun = (threadId, run, n, held) => follow(threadId, `${node(n)}/v1/runs/${run}/events?join=snapshot`, { get: true, held });

// past gives a thread two runs: one that succeeds and leaves state, and one that fails with things open.
async function past(thread) {
  await create(thread, thread + "-1", ask(thread + "-u1", "one"));
  await append(thread + "-1", { type: "STATE_SNAPSHOT", snapshot: { page: 1 } }, ...say(thread + "-a1", 3),
    ...use(thread + "-c1", thread + "-a1"), result(thread + "-c1"), finish(thread, thread + "-1"));
  const { messages } = await threadOf(thread);
  await create(thread, thread + "-2", ask(thread + "-u2", "two"));
  await append(thread + "-2", ...say(thread + "-a2", 3).slice(0, -1), ...use(thread + "-c2", thread + "-a2").slice(0, 2),
    { type: "RUN_ERROR", message: "out of tokens", code: "limit" });
  return messages;
}

test("the AG-UI agent joins a live run behind a failed one, at every offset", async (t) => {
  const held = await past("live"), run = "live-3";
  await create("live", run, ask("live-u3", "three"));
  const events = [
    { type: "STEP_STARTED", stepName: "think" },
    { type: "STATE_DELTA", delta: [{ op: "add", path: "/open", value: [1] }] },
    ...say("live-a3", 3), ...use("live-c3", "live-a3"), result("live-c3"),
    { type: "STEP_FINISHED", stepName: "think" },
    { type: "STATE_DELTA", delta: [{ op: "replace", path: "/page", value: 2 }] },
    ...say("live-a4", 2), finish("live", run),
  ];
  const agents = [];
  for (const [i, e] of events.entries()) {
    agents.push(...await Promise.all([connectTo("live", i, held), connectTo("live", i + 1), joinRun("live", run, i + 2, held), joinRun("live", run, i)]));
    await append(run, e);
  }
  await Promise.all(agents.map((a) => a.done));
  const { messages } = await threadOf("live");
  assert.deepEqual(messages.map((m) => m.id), ["live-u1", "live-a1", "live-c1-result", "live-u2", "live-a2", "live-u3", "live-a3", "live-c3-result", "live-a4"]);
  assert.deepEqual((await ok("GET", "/v1/threads/live/transcript?consistency=linearizable")).messages, messages);
  for (const [i, { agent }] of agents.entries()) {
    assert.deepEqual(agent.messages, messages, `joined before event ${Math.floor(i / 4)}, way ${i % 4}`);
    assert.deepEqual(agent.state, { page: 2, open: [1] });
  }
  // The verifier was on: it refuses the same run from its middle when no snapshot comes first.
  t.mock.method(console, "error", () => {}); // the agent's
  const bare = follow("live", `${node(0)}/v1/runs/${run}/events?from=4`, { get: true });
  await assert.rejects(async () => (await bare).done, /RUN_STARTED/);
  t.diagnostic(`${agents.length} agents`);
});

test("the AG-UI agent connects to a thread without a live run", async () => {
  const held = await past("idle"); // the last run failed
  const { messages } = await threadOf("idle");
  for (const [n, have] of [[], held, messages].entries()) {
    const { agent, done } = await connectTo("idle", n, have);
    await done;
    assert.deepEqual(agent.messages, messages);
    assert.deepEqual(agent.state, { page: 1 });
  }
  await create("idle", "idle-3", ask("idle-u3", "three"));
  await append("idle-3", ...say("idle-a3", 2), finish("idle", "idle-3")); // the last run succeeded
  const whole = (await threadOf("idle")).messages;
  assert.equal(whole.length, messages.length + 2);
  for (const [n, have] of [[], held, messages, whole].entries()) {
    const { agent, done } = await connectTo("idle", n, have);
    await done;
    assert.deepEqual(agent.messages, whole);
  }
  const { agent, done } = await connectTo("nothing-said", 0);
  await done;
  assert.deepEqual(agent.messages, []);
});

// startCutter passes connections on to one node after the other, and cuts each after as many bytes of
// its answer as cuts says, wherever in an event that is; the ones after those live.
async function startCutter(cuts) {
  const cutter = { connections: 0 };
  const sockets = new Set();
  const server = createServer((from) => {
    const n = cutter.connections++;
    const to = dial(Number(new URL(node(n)).port), "127.0.0.1");
    let left = cuts[n] ?? Infinity;
    for (const s of [from, to]) {
      sockets.add(s);
      s.on("error", () => {}).on("close", () => (from.destroy(), to.destroy(), sockets.delete(s)));
    }
    from.pipe(to);
    to.on("data", (bytes) => {
      from.write(bytes.subarray(0, left));
      left -= bytes.length;
      if (left <= 0) from.end();
    });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  cutter.url = `http://127.0.0.1:${server.address().port}`;
  cutter.stop = () => (sockets.forEach((s) => s.destroy()), new Promise((done) => server.close(done)));
  return cutter;
}

// listen opens an EventSource and notes its events and requests.
function listen(url) {
  const seen = { events: [], ids: [], requests: [] };
  seen.source = new EventSource(url, {
    fetch: async (to, init) => {
      const r = await fetch(to, init);
      seen.requests.push({ status: r.status, resumes: init.headers["Last-Event-ID"], after: seen.ids.at(-1) });
      return r;
    },
  });
  seen.source.onmessage = (m) => {
    seen.events.push(JSON.parse(m.data));
    seen.ids.push(m.lastEventId);
  };
  return seen;
}

test("a finished run stops an EventSource", async () => {
  await create("stop", "stop-1", ask("stop-u1", "one"));
  const seen = listen(node(0) + "/v1/runs/stop-1/events");
  await until("the beginning", () => seen.events.length > 0);
  await append("stop-1", ...say("stop-a1", 3), finish("stop", "stop-1"));
  await until("the end", () => seen.source.readyState === EventSource.CLOSED);
  assert.deepEqual(seen.events, await log("stop-1"));
  await sleep(2500); // two more reconnections, if there were any
  assert.deepEqual(seen.requests.map((r) => r.status), [200, 204]);
});

test("a thread's EventSource goes on after cuts, across runs and nodes", async (t) => {
  const cutter = await startCutter([900, 1100, 700, 1500]);
  t.after(() => cutter.stop());
  await past("cut");
  const seen = listen(cutter.url + "/v1/threads/cut/events");
  t.after(() => seen.source.close());
  for (const run of ["cut-3", "cut-4"]) {
    await create("cut", run, ask(run + "-u", run));
    for (const e of [...say(run + "-a", 5), finish("cut", run)]) await append(run, e);
  }
  const want = (await Promise.all([1, 2, 3, 4].map((n) => log("cut-" + n)))).flat();
  await until("all events", () => seen.events.length >= want.length);
  await create("cut", "cut-5", ask("cut-5-u", "still there?"));
  await append("cut-5", ...say("cut-5-a", 2), finish("cut", "cut-5"));
  want.push(...await log("cut-5"));
  await until("the last run", () => seen.events.length >= want.length);
  assert.deepEqual(seen.events, want);
  assert.equal(new Set(seen.ids).size, want.length);
  assert.equal(cutter.connections, 5, "four cuts, and no other end");
  for (const [n, r] of seen.requests.entries()) {
    assert.equal(r.status, 200);
    assert.equal(r.resumes, r.after, `request ${n} resumes after what was seen`);
  }
  t.diagnostic(`${seen.events.length} events over ${seen.requests.length} requests`);
});

test("an interrupt is answered once, and again when the answer is lost", async () => {
  const one = async (thread) => {
    const id = thread + "-i";
    const pending = async () => (await threadOf(thread)).interrupts.map((i) => [i.interrupt?.id ?? i.id, i.status]);
    const answer = (run, n, more) => call("POST", "/v1/runs",
      { threadId: thread, runId: run, input: { resume: [{ interruptId: id, status: "resolved", payload: { approved: true } }] }, ...more }, n);
    const connected = async () => {
      const { agent, done } = await connectTo(thread, turn++);
      await done;
      assert.deepEqual(agent.messages, (await threadOf(thread)).messages);
      return agent.pendingInterrupts.map((i) => i.id);
    };
    await create(thread, thread + "-1", ask(thread + "-u1", "refund"));
    await append(thread + "-1", ...say(thread + "-a1", 1), ...use(thread + "-c1", thread + "-a1"),
      finish(thread, thread + "-1", { type: "interrupt", interrupts: [{ id, reason: "approval", toolCallId: thread + "-c1" }] }));
    assert.deepEqual(await pending(), [[id, "pending"]]);
    assert.deepEqual(await connected(), [id]);

    const tabs = ["left", "right"].map((tab) => `${thread}-${tab}`);
    const answers = await Promise.all(tabs.map((run, n) => answer(run, n, { holder: run, leaseMs: 1500 })));
    const won = answers.findIndex((a) => a.status === 201), lost = answers[1 - won];
    assert.deepEqual(answers.map((a) => a.status).sort(), [201, 409], JSON.stringify(answers));
    assert.equal(lost.body.code, "interrupt_not_pending");
    assert.equal(lost.body.byRunId, tabs[won]);
    assert.equal((await call("GET", "/v1/runs/" + tabs[1 - won])).status, 404);
    assert.deepEqual((await pending()).filter(([, status]) => status === "pending"), []);

    // The winner is never heard of again.
    await until("its loss", async () => (await ok("GET", "/v1/runs/" + tabs[won])).status === "lost");
    assert.deepEqual(await pending(), [[id, "pending"]]);
    assert.deepEqual(await connected(), [id]);
    const again = await answer(thread + "-again", 2);
    assert.equal(again.status, 201);
    await append(thread + "-again", result(thread + "-c1"), ...say(thread + "-a2", 1), finish(thread, thread + "-again"));
    const late = await answer(thread + "-late", 0);
    assert.deepEqual([late.status, late.body.code, late.body.byRunId], [409, "interrupt_not_pending", thread + "-again"]);
    assert.deepEqual(await connected(), []);
  };
  await Promise.all(Array.from({ length: 5 }, (_, n) => one("approve" + n)));
});
