#!/usr/bin/env bash
# Measures appends to Durable Streams beside the protocol's reference server (@durable-streams/server,
# Node, file mode: one fdatasync per append), on this machine, and prints medians and ratios as a
# Markdown table.
#
#   scripts/compare-streams.sh [-r ROUNDS] [-d DURATION] [-s STREAMS,…] [-a]
#
# One message of 256 bytes a request, one writer a stream. Rounds are interleaved, and every point
# runs against a fresh server while nothing else runs: ours is a cluster of three nodes, which
# syncs to disk on a majority before it acknowledges; the reference is one process. Writers talk to the
# leader; with -a to all nodes alike. Needs Go, Node 20 or later and npm.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=3 duration=3s streams=1,16,64 all=
while getopts r:d:s:a flag; do
  case $flag in
    r) rounds=$OPTARG ;;
    d) duration=$OPTARG ;;
    s) streams=$OPTARG ;;
    a) all=1 ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done

work=$(mktemp -d "${TMPDIR:-/tmp}/runlog-streams-XXXXXX")
server=
stop() {
  if [ -n "$server" ]; then
    kill -INT "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
  fi
}
trap 'stop; rm -rf "$work"' EXIT

go build -o "$work/runlog" ./cmd/runlog
[ -d conformance/durable/node_modules ] || (cd conformance/durable && npm ci --silent --no-audit --no-fund)
results=$work/results.tsv
: >"$results"

# await FILE waits until the server has written a line there.
await() {
  until [ -s "$1" ]; do
    kill -0 "$server" 2>/dev/null || { cat "$work"/*.log >&2; exit 1; }
    sleep 0.1
  done
}

# point SYSTEM STREAMS URLS measures once.
point() {
  "$work/runlog" bench streams --url "$3" --streams "$2" --duration "$duration" -o json >"$work/point" || { echo "compare-streams: a point of $1 failed" >&2; exit 1; }
  node -e '
    const [file, system, streams] = process.argv.slice(1);
    const r = JSON.parse(require("fs").readFileSync(file));
    console.log([system, streams, r.requestsPerSecond, r.p50Ns, r.p99Ns, r.errors].join("\t"));' "$work/point" "$1" "$2" | tee -a "$results" >&2
}

runlog() {
  "$work/runlog" dev --data "$work/data" --http-port 24437 --raft-port 25437 >"$work/ready" 2>"$work/dev.log" &
  server=$!
  await "$work/ready"
  local urls
  urls=$(sed 's/^ready //; s/ /,/g' "$work/ready")
  [ -n "$all" ] || urls=$(node -e '
    fetch(process.argv[1] + "/v1/cluster").then((r) => r.json()).then((c) => {
      const url = c.nodes.find((n) => n.id === c.leader).http;
      console.log(url.startsWith("http") ? url : "http://" + url);
    });' "${urls%%,*}")
  point runlog "$1" "$urls"
  stop
  rm -rf "$work/data" "$work/ready"
}

reference() {
  mkfifo "$work/end"
  node conformance/durable/reference.mjs "$work/data" <"$work/end" >"$work/ready" 2>"$work/node.log" &
  server=$!
  exec 9>"$work/end"
  await "$work/ready"
  point reference "$1" "$(cat "$work/ready")"
  exec 9>&-
  stop
  rm -rf "$work/data" "$work/ready" "$work/end"
}

for round in $(seq "$rounds"); do
  for s in ${streams//,/ }; do
    echo "round $round, $s streams" >&2
    runlog "$s"
    reference "$s"
  done
done

# median SYSTEM STREAMS COLUMN
median() { awk -F'\t' -v s="$1" -v n="$2" -v c="$3" '$1 == s && $2 == n { print $c }' "$results" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
row() { awk -v n="$1" -v a="$2" -v b="$3" -v ap="$4" -v aq="$5" -v bp="$6" -v bq="$7" 'BEGIN {
  printf "| %d | %d | %.2f / %.2f | %d | %.2f / %.2f | %.1f |\n", n, a, ap / 1e6, aq / 1e6, b, bp / 1e6, bq / 1e6, a / b }'; }

echo "Medians of $rounds interleaved rounds of $duration, 256-byte messages, one a request; p50/p99 in ms."
echo
echo "| streams | runlog, three nodes: appends/s | p50/p99 | reference, file mode: appends/s | p50/p99 | ratio |"
echo "|---|---|---|---|---|---|"
for s in ${streams//,/ }; do
  row "$s" "$(median runlog "$s" 3)" "$(median reference "$s" 3)" "$(median runlog "$s" 4)" "$(median runlog "$s" 5)" "$(median reference "$s" 4)" "$(median reference "$s" 5)"
done
awk -F'\t' '$6 > 0 { printf "%s at %d streams had %d errors\n", $1, $2, $6 }' "$results"
