// The runs that both sides fold: the recorded corpus beside the repository, when it is there,
// and the project's own in projection/testdata: single runs, and threads of several, one after the
// other.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const testdata = ["runs", "threads"].map((n) => here(`../../projection/testdata/${n}/`));
export const corpusFiles = ["ag-ui-golden", "real-runs"].map((n) => here(`../../../shared/corpus/${n}.ndjson`));

export function corpus() {
  return corpusFiles.filter(existsSync).flatMap((file) =>
    readFileSync(file, "utf8").trim().split("\n").map((line) => JSON.parse(line)));
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
