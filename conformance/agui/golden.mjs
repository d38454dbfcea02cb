// Rewrites the "client" part of the runs in projection/testdata: what the published client holds
// after each event, one JSON object a line, "=" where nothing changed, "error" where it gives up.
// The Go tests compare with it, so that they need no Node. Of threads made of recorded runs, which
// are not copied into the project, it writes a digest of what the client holds at the end of each run.
import { writeFileSync } from "node:fs";
import { prefixes, whole } from "./client.mjs";
import { digest } from "./digest.mjs";
import { digests, own, threads, writeOwn } from "./runs.mjs";

for (const run of own()) {
  const { rows, error } = await prefixes(run.events);
  const lines = rows.map((row, i) => (row === rows[i - 1] ? "=" : row));
  if (error !== null) lines.push("error");
  writeOwn(run, lines.join("\n") + "\n");
}

const lines = [];
for (const thread of threads()) {
  const ends = [];
  for (let n = 1; n <= thread.runs.length; n++) {
    const { row, error } = await whole(thread.runs.slice(0, n).flat(), { enforce: false });
    if (error !== null) break;
    ends.push(digest(JSON.parse(row)));
  }
  lines.push(JSON.stringify({ runs: thread.names, ends }) + "\n");
}
if (lines.length > 0) writeFileSync(digests, lines.join(""));
