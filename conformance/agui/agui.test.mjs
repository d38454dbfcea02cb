// Holds runlog's projections to the published AG-UI client, event by event.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { prefixes, whole } from "./client.mjs";
import { generate, generateLegal } from "./generate.mjs";
import { corpus, own } from "./runs.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const binary = join(mkdtempSync(join(tmpdir(), "runlog-agui-")), "agui");
execFileSync("go", ["build", "-o", binary, "."], { cwd: here, stdio: "inherit" });

function fold(runs, ...flags) {
  const input = runs.map((r) => JSON.stringify({ name: r.name, events: r.events })).join("\n") + "\n";
  const out = execFileSync(binary, flags, { input, maxBuffer: 1 << 30 }).toString().trim().split("\n");
  return out.map((line) => JSON.parse(line));
}

// ids gives runs that lack what only the envelope needs the fields that enforcement demands, so
// that the client gets past their first event.
const withIds = (events) => events.map((e) => {
  if (e.type === "RUN_STARTED" || e.type === "RUN_FINISHED") return { threadId: "t", runId: "r", ...e };
  if (e.type === "RUN_ERROR") return { message: "", ...e };
  return e;
});

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
