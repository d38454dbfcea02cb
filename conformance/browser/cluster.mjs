// A cluster of three real processes, a front for browsers, and an agent: what a chat page needs behind it.
import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request, createServer } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const repository = resolve(import.meta.dirname, "../..");

// until polls, for half a minute at most.
export async function until(what, is, signal) {
  for (let n = 0; n < 600; n++) {
    const value = await is();
    if (value) return value;
    if (signal?.aborted) break;
    await sleep(50);
  }
  throw new Error("still waiting: " + what);
}

export async function startCluster() {
  const dir = mkdtempSync(join(tmpdir(), "runlog-browser-"));
  const binary = join(dir, "runlog");
  execFileSync("go", ["build", "-o", binary, "./cmd/runlog"], { cwd: repository, stdio: "inherit" });
  const base = 32000 + 2 * Math.floor(Math.random() * 300); // below the ports that the kernel gives out
  const dev = spawn(binary, ["dev", "--data", join(dir, "data"), "--http-port", base, "--raft-port", base + 3], { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((ready, failed) => {
    dev.stdout.once("data", ready);
    dev.once("exit", (code) => failed(new Error("runlog dev ended with " + code)));
  });
  const urls = [0, 1, 2].map((i) => `http://127.0.0.1:${base + i}`);
  return {
    urls,
    // leader is the number of the node that leads.
    leader: () => until("a leader", async () => {
      for (const url of urls) {
        const cluster = await fetch(url + "/v1/cluster").then((r) => r.json(), () => ({}));
        if (cluster.leader) return Number(cluster.leader.slice(1));
      }
    }),
    kill: (node) => process.kill(Number(readFileSync(join(dir, "data", "n" + node, "node.pid"), "utf8")), "SIGKILL"),
    async stop() {
      const gone = new Promise((done) => dev.once("exit", done));
      dev.kill("SIGINT");
      await gone;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

// startFront serves the page and hands /v1 on to one node, to another when that one does not answer.
// opened counts the streams that browsers have opened, by path.
export async function startFront(urls) {
  const page = readFileSync(join(repository, "docs/howto/chat-page.html"));
  const front = { node: 0, opened: new Map(), page };
  const server = createServer((req, res) => {
    if (!req.url.startsWith("/v1/")) return res.setHeader("Content-Type", "text/html").end(page);
    if (req.headers.accept === "text/event-stream") {
      const path = req.url.split("?")[0];
      front.opened.set(path, (front.opened.get(path) ?? 0) + 1);
    }
    const chunks = [];
    req.on("data", (c) => chunks.push(c)).on("end", () => hand(Buffer.concat(chunks), 0));
    const hand = (body, tries) => {
      const up = request(urls[front.node] + req.url, { method: req.method, headers: { ...req.headers, "content-type": "application/json" } }, (answer) => {
        res.writeHead(answer.statusCode, answer.headers);
        answer.pipe(res);
        answer.on("error", () => res.destroy());
      });
      up.on("error", () => {
        if (res.headersSent || tries > 20) return res.destroy();
        front.node = (front.node + 1) % urls.length;
        setTimeout(() => hand(body, tries + 1), 50);
      });
      res.on("close", () => up.destroy());
      up.end(body);
    };
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  front.url = `http://127.0.0.1:${server.address().port}/`;
  front.stop = () => (server.closeAllConnections(), new Promise((done) => server.close(done)));
  return front;
}

// startAgent watches the stream of changes and answers each new run with words "0 ", "1 ", …, until
// it is asked to stop. Each batch has its place in the log, so that repeating it is harmless.
export function startAgent(urls, words) {
  const stopped = new AbortController();
  const say = async (path, init) => until(path, async () => {
    for (const url of urls) {
      const r = await fetch(url + path, { ...init, signal: stopped.signal }).catch(() => null);
      if (r && r.status < 500 && r.status !== 429) return r;
    }
    return null;
  }, stopped.signal);
  const answer = async (run) => {
    const id = "answer-" + run, path = "/v1/runs/" + encodeURIComponent(run);
    const lease = await (await say(path + "/lease", { method: "POST", body: '{"holder":"agent","leaseMs":30000}', headers: { "Idempotency-Key": run } })).json();
    let seq = 0, cancelled = false;
    const append = async (...events) => {
      const r = await say(path + "/events", { method: "POST", body: JSON.stringify(events),
        headers: { "Run-Epoch": lease.epoch, "Producer-Id": "agent", "Producer-Epoch": 0, "Producer-Seq": seq++ } });
      if (r.ok) cancelled = (await r.json()).cancelRequested === true;
    };
    await append({ type: "TEXT_MESSAGE_START", messageId: id, role: "assistant" });
    for (let n = 0; n < words && !cancelled; n++) {
      await append({ type: "TEXT_MESSAGE_CONTENT", messageId: id, delta: n + " " });
      await sleep(40);
    }
    await append({ type: "TEXT_MESSAGE_END", messageId: id }, { type: "RUN_FINISHED", outcome: { type: cancelled ? "cancelled" : "success" } });
  };
  const at = { from: 0 }, answers = [];
  const watching = (async () => {
    while (!stopped.signal.aborted) {
      const page = await (await say(`/v1/changes?from=${at.from}&waitMs=1000`)).json();
      for (const c of page.changes ?? []) {
        at.from = c.offset + 1;
        if (c.change === "created") answers.push(answer(c.runId).catch((e) => stopped.signal.aborted || Promise.reject(e)));
      }
    }
  })().catch((e) => stopped.signal.aborted || Promise.reject(e));
  return {
    async stop() {
      stopped.abort();
      await Promise.allSettled([...answers, watching]);
    },
  };
}
