// A host of chats: the server side of an application, in a process of its own that tests can kill.
//
//	POST /api/chat?run=ID     starts a run and answers where its stream is
//	POST /api/takeover?run=ID waits for the run's lease and goes on where its host stopped
//	POST /more?words=N        lets the model say N more words
//
// It is told by its environment: RUNLOG (a node), HOLDER, LEASE_MS, TAKEOVER_MS.
import { chat } from "@tanstack/ai";
import { toDurableStreamResponse } from "@durable-streams/tanstack-ai-transport";
import { createServer } from "node:http";
import { lookup, scripted } from "./model.mjs";

const { RUNLOG, HOLDER, LEASE_MS, TAKEOVER_MS } = process.env;
const holding = { "Run-Holder": HOLDER, "Run-Lease-Ms": LEASE_MS, "Run-Takeover-Ms": TAKEOVER_MS };
const streamURL = (run) => `${RUNLOG}/v1/stream/runs/${encodeURIComponent(run)}`;

const threadOf = (run) => `chat-${run}`;

let words = 0;
let waiting = [];
async function permit() {
  while (words === 0) await new Promise((done) => waiting.push(done));
  words--;
}
function more(n) {
  words += n;
  for (const wake of waiting.splice(0)) wake();
}

const answer = (run) => chat({
  adapter: scripted(permit), tools: [lookup], messages: [{ role: "user", content: "What is the answer?" }], runId: run, threadId: threadOf(run),
});

// oneRun keeps RUN_FINISHED for the end: chat sends one for each turn of the model.
async function* oneRun(chunks) {
  let finished;
  for await (const c of chunks) {
    if (c.type === "RUN_FINISHED") finished = c;
    else yield c;
  }
  if (finished) yield finished;
}

// renew keeps this host's runs while tools are slow and models silent.
async function renew() {
  const { runs } = await (await fetch(`${RUNLOG}/v1/runs?status=running&holder=${HOLDER}`)).json();
  if (runs.length === 0) return;
  await fetch(`${RUNLOG}/v1/leases`, {
    method: "PUT",
    body: JSON.stringify({ holder: HOLDER, leaseMs: Number(LEASE_MS), runs: runs.map(({ runId, epoch }) => ({ runId, epoch })) }),
  });
}
setInterval(() => renew().catch(() => {}), Number(LEASE_MS) / 3);

// takeOver executes the chat again; the log takes only what it lacks.
async function takeOver(run) {
  const url = `${RUNLOG}/v1/runs/${encodeURIComponent(run)}`;
  const lease = await fetch(`${url}/lease`, {
    method: "POST",
    body: JSON.stringify({ holder: HOLDER, leaseMs: Number(LEASE_MS), waitMs: 30_000 }),
  });
  if (!lease.ok) throw new Error(await lease.text());
  const { epoch } = await lease.json();
  more(100);
  let body = "";
  for await (const c of oneRun(answer(run))) body += JSON.stringify(c) + "\n";
  return fetch(`${url}/replay`, { method: "POST", headers: { "Run-Epoch": epoch, "Content-Type": "application/x-ndjson" }, body });
}

async function route(url) {
  const run = url.searchParams.get("run");
  switch (url.pathname) {
    case "/api/chat":
      return toDurableStreamResponse(oneRun(answer(run)), { stream: { writeUrl: streamURL(run), headers: { ...holding, "Run-Thread": threadOf(run) } } });
    case "/api/takeover":
      return takeOver(run);
    case "/more":
      more(Number(url.searchParams.get("words")));
      return new Response(null, { status: 204 });
  }
  return new Response(null, { status: 404 });
}

const server = createServer(async (req, res) => {
  req.resume();
  const r = await route(new URL(req.url, "http://host")).catch((e) => Response.json({ error: String(e) }, { status: 500 }));
  res.writeHead(r.status, Object.fromEntries(r.headers)).end(await r.text());
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
process.stdin.on("end", () => process.exit()).resume(); // with whoever started it
