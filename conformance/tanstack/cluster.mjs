// A cluster of three nodes on free ports of this machine, for as long as a test file runs.
import { execFileSync, spawn } from "node:child_process";
import { openSync, readFileSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

// freePorts returns ports that nobody listens on now, each another.
async function freePorts(n) {
  const servers = await Promise.all(Array.from({ length: n }, () => new Promise((done, fail) => {
    const s = createServer().on("error", fail).listen(0, "127.0.0.1", () => done(s));
  })));
  const ports = servers.map((s) => s.address().port);
  await Promise.all(servers.map((s) => new Promise((done) => s.close(done))));
  return ports;
}

// startCluster builds runlog, starts three nodes and returns their URLs once all are ready. stop
// kills them and removes what they wrote.
export async function startCluster() {
  const dir = mkdtempSync(join(tmpdir(), "runlog-tanstack-"));
  const bin = join(dir, "runlog");
  execFileSync("go", ["build", "-o", bin, "github.com/runlog/runlog/cmd/runlog"], { stdio: "inherit" });
  const ports = await freePorts(6);
  const nodes = [0, 1, 2].map((i) => ({ id: `n${i + 1}`, http: `127.0.0.1:${ports[2 * i]}`, raft: `127.0.0.1:${ports[2 * i + 1]}` }));
  const members = nodes.map((n) => `${n.id}=${n.raft}@${n.http}`).join(",");
  const logOf = (n) => join(dir, `${n.id}.log`);
  const processes = nodes.map((n) => {
    const log = openSync(logOf(n), "a");
    return spawn(bin, ["serve", "--id", n.id, "--data", join(dir, n.id), "--http", n.http, "--raft", n.raft, "--bootstrap", members],
      { stdio: ["ignore", log, log] });
  });
  const stop = async () => {
    await Promise.all(processes.map(kill));
    rmSync(dir, { recursive: true, force: true });
  };
  process.once("exit", () => processes.forEach((p) => p.kill("SIGKILL")));
  for (const n of nodes) {
    const deadline = Date.now() + 60_000;
    while (!(await fetch(`http://${n.http}/readyz`).then((r) => r.ok, () => false))) {
      if (Date.now() > deadline) {
        const log = readFileSync(logOf(n), "utf8").slice(-4000);
        await stop();
        throw new Error(`${n.id} was not ready within a minute; its log ends:\n${log}`);
      }
      await sleep(50); // poll
    }
  }
  return { urls: nodes.map((n) => `http://${n.http}`), stop };
}

// kill ends a process as a power cut would, and returns once it is gone.
export function kill(p) {
  if (p.exitCode !== null || p.signalCode !== null) return;
  const gone = new Promise((done) => p.once("exit", done));
  p.kill("SIGKILL");
  return gone;
}
