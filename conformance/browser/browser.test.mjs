// The page of "A chat page without a library" in a real browser, over three real nodes.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { sleep, startAgent, startCluster, startFront, until } from "./cluster.mjs";

const words = 40;
const whole = [...Array(words).keys()].map((n) => n + " ").join("");
let cluster, front, agent, browser;

before(async () => {
  cluster = await startCluster();
  front = await startFront(cluster.urls);
  agent = startAgent(cluster.urls, words);
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--headless", "--no-sandbox",
    "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"] });
});
after(async () => {
  for (const part of [browser && { stop: () => browser.close() }, agent, front, cluster]) await part?.stop().catch((e) => console.error(e));
});

const open = async (thread) => {
  const tab = await browser.newPage();
  await tab.goto(front.url + "?thread=" + thread);
  return tab;
};
const send = async (tab, text) => {
  await tab.fill("#text", text);
  await tab.click("#say button");
};
const lines = (tab) => tab.evaluate(() => [...document.querySelectorAll("#log li")].map((li) => li.textContent));
const answered = (tab, n) => until("line " + n, async () => ((await lines(tab))[n] ?? "").split(" ").length > 5);

// counts compares what tabs show with what was said: words that are missing, and words too many.
const counts = { missed: 0, doubled: 0 };
async function same(tabs, want) {
  for (const tab of tabs) {
    await until("the end", async () => (await lines(tab)).length === want.length && (await lines(tab)).at(-1).length >= want.at(-1).length);
    for (const [i, line] of (await lines(tab)).entries()) {
      const got = line.split(" "), told = want[i].split(" ");
      counts.missed += told.filter((w) => !got.includes(w)).length;
      counts.doubled += got.length - new Set(got).size;
      assert.equal(line, want[i]);
    }
  }
}

test("history, a live answer, a reload and a second tab in the middle of it", async (t) => {
  const first = await open("talk");
  await send(first, "hello");
  await answered(first, 1);
  const second = await open("talk");
  await first.reload();
  await same([first, second], ["hello", whole]);
  await send(second, "again");
  await same([first, second, await open("talk")], ["hello", whole, "again", whole]);
  t.diagnostic(`missed ${counts.missed}, doubled ${counts.doubled}`);
});

test("stop ends the answer in every tab", async () => {
  const [first, second] = [await open("stop"), await open("stop")];
  await send(first, "count");
  await answered(second, 1);
  await second.click("#halt");
  const run = await until("the end", async () => {
    const { runs, activeRun } = await (await fetch(front.url + "v1/threads/stop")).json();
    return activeRun === null && runs[0];
  });
  assert.equal(run.status, "cancelled");
  const { messages } = await (await fetch(front.url + "v1/threads/stop?consistency=linearizable")).json();
  assert.ok(messages[1].content.length < whole.length);
  await same([first, second, await open("stop")], ["count", messages[1].content]);
});

test("a finished run stops an EventSource", async (t) => {
  const tab = await open("talk");
  const { runs } = await (await fetch(front.url + "v1/threads/talk")).json();
  const path = `/v1/runs/${runs[0].runId}/events`;
  const seen = await tab.evaluate((path) => new Promise((done) => {
    let n = 0;
    const source = new EventSource(path);
    source.onmessage = () => n++;
    source.onerror = () => source.readyState === EventSource.CLOSED && done(n);
  }), path);
  assert.equal(seen, runs[0].tail);
  await sleep(2500); // two more reconnections, if there were any
  assert.equal(front.opened.get(path), 2, "the stream, and the 204");
  t.diagnostic(`${seen} events over ${front.opened.get(path)} requests`);
});

test("an election does not end a stream, and a node's death moves it", async (t) => {
  const leader = await cluster.leader();
  front.node = leader % 3; // another node than the leader
  const [first, second] = [await open("kill"), await open("kill")];
  await send(first, "go on");
  await answered(first, 1);
  const opened = front.opened.get("/v1/threads/kill/events");
  cluster.kill(leader);
  await same([first, second], ["go on", whole]);
  assert.equal(front.opened.get("/v1/threads/kill/events"), opened, "streams that an election ended");
  const back = front.node + 1;
  await until("the killed node", async () => (await fetch(cluster.urls[leader - 1] + "/readyz").catch(() => ({}))).ok);
  await send(second, "and on");
  await answered(second, 3);
  cluster.kill(back); // the node that serves both tabs
  await same([first, second, await open("kill")], ["go on", whole, "and on", whole]);
  assert.ok(front.opened.get("/v1/threads/kill/events") > opened);
  t.diagnostic(`missed ${counts.missed}, doubled ${counts.doubled}`);
});
