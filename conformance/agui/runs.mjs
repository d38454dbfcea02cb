// The runs that both sides fold: the recorded corpus beside the repository, when it is there,
// and the project's own in projection/testdata: single runs, and threads of several, one after the
// other.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const testdata = ["runs", "threads"].map((n) => here(`../../projection/testdata/${n}/`));
export const digests = here("../../projection/testdata/corpus-threads.ndjson");
export const corpusFiles = ["ag-ui-golden", "real-runs"].map((n) => here(`../../../shared/corpus/${n}.ndjson`));

export function corpus() {
  return corpusFiles.filter(existsSync).flatMap((file) =>
    readFileSync(file, "utf8").trim().split("\n").map((line) => JSON.parse(line)));
}

// withIds gives runs that lack what only the envelope needs the fields that enforcement demands, so
// that the client gets past their first event.
export const withIds = (events) => events.map((e) => {
  if (e.type === "RUN_STARTED" || e.type === "RUN_FINISHED") return { threadId: "t", runId: "r", ...e };
  if (e.type === "RUN_ERROR") return { message: "", ...e };
  return e;
});

// threads strings recorded runs of one agent stack together, three at a time, each up to its first
// terminal event, as a log holds them. Their ids are as they were recorded: some stacks use the same
// ones in every run.
export function threads() {
  const recorded = corpus().filter((r) => r.name.includes("/"));
  const stack = (r) => r.name.split("/")[0];
  const ended = (events) => {
    const end = events.findIndex((e) => /^RUN_(FINISHED|ERROR)$/.test(e.type));
    return end < 0 ? events : events.slice(0, end + 1);
  };
  const out = [];
  for (let i = 2; i < recorded.length; i++) {
    const runs = recorded.slice(i - 2, i + 1);
    if (runs.some((r) => stack(r) !== stack(runs[0]))) continue;
    out.push({ names: runs.map((r) => r.name), name: runs.map((r) => r.name).join(" + "), runs: runs.map((r) => withIds(ended(r.events))) });
  }
  return out;
}

// sections splits a txtar archive (golang.org/x/tools/txtar): comment, then named files.
export function sections(text) {
  const parts = text.split(/^-- (.+) --\n/m);
  const files = new Map();
  for (let i = 1; i < parts.length; i += 2) files.set(parts[i], parts[i + 1]);
  return { comment: parts[0], files };
}

export function own() {
  return testdata.flatMap((dir) => readdirSync(dir).filter((n) => n.endsWith(".txtar")).sort().map((name) => {
    const { comment, files } = sections(readFileSync(dir + name, "utf8"));
    const text = files.get("events");
    return { name, path: dir + name, comment, files, events: text.trim().split("\n").map((l) => JSON.parse(l)) };
  }));
}

// writeOwn replaces the client's part of a run; what else is in its file stays.
export function writeOwn(run, golden) {
  run.files.set("client", golden);
  writeFileSync(run.path, run.comment + [...run.files].map(([name, text]) => `-- ${name} --\n${text}`).join(""));
}
