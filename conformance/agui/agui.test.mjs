// Holds runlog's projections to the published AG-UI client, event by event.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { connect, prefixes, whole } from "./client.mjs";
import { generate, generateLegal } from "./generate.mjs";
import { corpus, own, threads, withIds } from "./runs.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const binary = join(mkdtempSync(join(tmpdir(), "runlog-agui-")), "agui");
execFileSync("go", ["build", "-o", binary, "."], { cwd: here, stdio: "inherit" });

function fold(runs, ...flags) {
  const input = runs.map((r) => JSON.stringify({ name: r.name, events: r.events, held: r.held })).join("\n") + "\n";
  const out = execFileSync(binary, flags, { input, maxBuffer: 1 << 30 }).toString().trim().split("\n");
  return out.map((line) => JSON.parse(line));
}

async function comparePrefixes(runs) {
  const ours = fold(runs);
  let compared = 0;
  for (const [i, run] of runs.entries()) {
    const { rows } = await prefixes(run.events);
    for (const [n, row] of rows.entries()) {
      assert.deepEqual(ours[i].prefixes[n], JSON.parse(row), `${run.name}: after event ${n}, ${JSON.stringify(run.events[n])}`);
      compared++;
    }
  }
  return compared;
}

// comparePreludes joins each legal run before each of its events and goes on with the rest.
async function comparePreludes(runs) {
  const ours = fold(runs, "-preludes");
  let joined = 0;
  let illegal = 0;
  for (const [i, run] of runs.entries()) {
    const all = await whole(run.events, { verify: true });
    if (all.error !== null) {
      illegal++;
      continue;
    }
    for (const [n, prelude] of ours[i].preludes.entries()) {
      const rest = run.events.slice(n + 1);
      // A thread is joined at its last run, and after a terminal event there is nothing to join.
      if (rest.some((e) => e.type === "RUN_STARTED") || /RUN_(FINISHED|ERROR)/.test(run.events[n].type)) continue;
      const { row, error } = await whole([...prelude, ...rest], { verify: true });
      assert.equal(error, null, `${run.name}: joined after event ${n}`);
      assert.deepEqual(JSON.parse(row), JSON.parse(all.row), `${run.name}: joined after event ${n}`);
      joined++;
    }
  }
  assert.ok(joined > 0 && illegal < runs.length / 2, `${illegal} of ${runs.length} runs are illegal`);
  return `${joined} joins of ${runs.length - illegal} legal runs`;
}

// compareThreads joins legal threads of several runs, also before the last one, and goes on with the
// rest; every = 1 joins at every offset of the last run. A client that already holds what some
// earlier run left joins as well: what it held must not come twice.
async function compareThreads(list, every) {
  const flat = list.map((t) => ({ ...t, events: t.runs.flat() }));
  const ours = fold(flat, "-preludes");
  let joined = 0;
  let legal = 0;
  for (const [i, { name, runs, events }] of flat.entries()) {
    const all = await whole(events, { verify: true });
    if (all.error !== null) continue;
    legal++;
    const want = JSON.parse(all.row);
    const last = events.length - runs.at(-1).length;
    const ends = runs.slice(0, -1).map((_, n) => runs.slice(0, n + 1).flat().length);
    const seeds = [];
    for (const end of ends) seeds.push(JSON.parse((await whole(events.slice(0, end), { verify: true })).row));
    // Activities are the client's own; it does not tell them.
    const toSeeds = ends.length === 0 ? [] : fold(seeds.map((s) => ({ name, events, held: s.messages.filter((m) => m.role !== "activity").map((m) => m.id) })), "-preludes");
    for (const [n, prelude] of ours[i].preludes.entries()) {
      if (/RUN_(FINISHED|ERROR)/.test(events[n].type) || (n + 1 < last ? n % 7 !== 0 : n % every !== 0)) continue;
      const rest = [...prelude, ...events.slice(n + 1)];
      const { row, error } = await whole(rest, { verify: true });
      assert.equal(error, null, `${name}: joined after event ${n}`);
      assert.deepEqual(JSON.parse(row), want, `${name}: joined after event ${n}`);
      joined++;
      const s = ends.filter((end) => end <= n + 1).length - 1;
      if (s < 0) continue;
      const again = await whole([...toSeeds[s].preludes[n], ...events.slice(n + 1)], { verify: true, seed: seeds[s] });
      assert.equal(again.error, null, `${name}: holding event ${ends[s]}, joined after event ${n}`);
      assert.deepEqual(JSON.parse(again.row), want, `${name}: holding event ${ends[s]}, joined after event ${n}`);
      joined++;
    }
  }
  assert.ok(joined > 0, "no thread was joined");
  return `${joined} joins of ${legal} legal threads`;
}

// split makes a thread of a stream that holds several runs.
function split({ name, events }) {
  const runs = [];
  for (const e of events) {
    if (e.type === "RUN_STARTED" || runs.length === 0) runs.push([]);
    runs.at(-1).push(e);
  }
  return { name, runs };
}

const recorded = corpus().map((r) => ({ name: r.name, events: withIds(r.events) }));
const numbered = (count, make) => Array.from({ length: count }, (_, i) => ({ name: `seed ${i}`, events: make(i) }));
const seeds = Number(process.env.AGUI_SEEDS ?? 100);

test("every prefix of the corpus", { skip: recorded.length === 0 && "no corpus beside the repository" }, async (t) => {
  t.diagnostic(`${await comparePrefixes(recorded)} prefixes of ${recorded.length} runs`);
});
test("every prefix of our own runs", async (t) => {
  t.diagnostic(`${await comparePrefixes(own())} prefixes`);
});
test("every prefix of random runs", async (t) => {
  t.diagnostic(`${await comparePrefixes(numbered(seeds, (i) => generate(i, 60)))} prefixes of ${seeds} runs`);
});
test("joining the corpus anywhere", { skip: recorded.length === 0 && "no corpus beside the repository" }, async (t) => {
  t.diagnostic(`${await comparePreludes(recorded)}`);
});
test("joining our own runs anywhere", async (t) => {
  t.diagnostic(`${await comparePreludes(own())}`);
});
test("joining random legal runs anywhere", async (t) => {
  t.diagnostic(`${await comparePreludes(numbered(Math.ceil(seeds / 2), generateLegal))}`);
});
test("joining recorded threads", { skip: recorded.length === 0 && "no corpus beside the repository" }, async (t) => {
  t.diagnostic(await compareThreads(threads(), Number(process.env.AGUI_EVERY ?? 5)));
});
test("joining our own threads anywhere", async (t) => {
  t.diagnostic(await compareThreads(own().map(split).filter((r) => r.runs.length > 1), 1));
});
test("connectAgent at the end of a thread", async () => {
  for (const thread of own().map(split).filter((r) => r.runs.length > 1)) {
    const events = thread.runs.flat();
    const all = await whole(events, { verify: true });
    if (all.error !== null) continue;
    const n = events.length - 2;
    const agent = await connect([...fold([{ ...thread, events }], "-preludes")[0].preludes[n], ...events.slice(n + 1)]);
    assert.deepEqual(agent.messages, JSON.parse(all.row).messages, thread.name);
    assert.deepEqual(agent.state, JSON.parse(all.row).state, thread.name);
    assert.equal(agent.isRunning, false, thread.name);
  }
});
