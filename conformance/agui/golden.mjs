// Rewrites the "client" part of the runs in projection/testdata: what the published client holds
// after each event, one JSON object a line, "=" where nothing changed, "error" where it gives up.
// The Go tests compare with it, so that they need no Node.
import { prefixes } from "./client.mjs";
import { own, writeOwn } from "./runs.mjs";

for (const run of own()) {
  const { rows, error } = await prefixes(run.events);
  const lines = rows.map((row, i) => (row === rows[i - 1] ? "=" : row));
  if (error !== null) lines.push("error");
  writeOwn(run, lines.join("\n") + "\n");
}
