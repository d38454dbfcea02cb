#!/usr/bin/env bash
# Measures runlog beside NATS JetStream (R3, fsync before each acknowledgement) and etcd, on this
# machine, and prints medians and ratios as a Markdown table.
#
#   scripts/compare.sh [-r ROUNDS] [-d DURATION] [-w WRITERS,…] [-o FILE] [PEERS]
#
# PEERS (default ../shared/bench-peers) holds the load generators of the peers: nats/ and etcd/, each
# a Go program that starts three server processes of its own. Rounds are interleaved: one point of
# ours, the same point of each peer, and again; every point runs against a fresh cluster while
# nothing else runs. All systems sync to disk on a majority before they acknowledge 256 bytes.
# -o keeps the single measurements as tab-separated lines: system, writers, appends/s, p50 and p99 in
# microseconds, errors.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=3 duration=3s writers=1,16,64,256 keep=
while getopts r:d:w:o: flag; do
  case $flag in
    r) rounds=$OPTARG ;;
    d) duration=$OPTARG ;;
    w) writers=$OPTARG ;;
    o) keep=$OPTARG ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
peers=${1:-../shared/bench-peers}
[ -d "$peers/nats" ] && [ -d "$peers/etcd" ] || { echo "compare: no peers in $peers" >&2; exit 2; }

work=$(mktemp -d "${TMPDIR:-/tmp}/runlog-compare-XXXXXX")
cluster=
stop() {
  if [ -n "$cluster" ]; then
    kill -INT "$cluster" 2>/dev/null || true
    wait "$cluster" 2>/dev/null || true
    cluster=
  fi
}
trap 'stop; rm -rf "$work"' EXIT

echo "building" >&2
go build -o "$work/runlog" ./cmd/runlog
(cd "$peers/nats" && go build -o "$work/nats" .)
(cd "$peers/etcd" && go build -o "$work/etcd" .)
results=$work/results.tsv
: >"$results"

# record SYSTEM reads one line that ends "… N/s p50=… p99=… errors=…" and keeps its figures.
record() {
  awk -v name="$1" -v writers="$2" '
    function micros(s,  n) {
      n = s + 0
      if (s ~ /(µs|us)$/) return n
      if (s ~ /ms$/) return n * 1e3
      return n * 1e6
    }
    {
      line = $0
      gsub(/=[ ]+/, "=", line)
      n = split(line, f, /[ ]+/)
      for (i = 1; i <= n; i++) {
        if (f[i] ~ /\/s$/) rate = f[i] + 0
        if (f[i] ~ /^p50=/) p50 = micros(substr(f[i], 5))
        if (f[i] ~ /^p99=/) p99 = micros(substr(f[i], 5))
        if (f[i] ~ /^err(or)?s=/) { sub(/.*=/, "", f[i]); errors = f[i] + 0 }
      }
    }
    END { printf "%s\t%d\t%d\t%d\t%d\t%d\n", name, writers, rate, p50, p99, errors }' >>"$results"
  tail -n 1 "$results" >&2
}

runlog() {
  "$work/runlog" dev --data "$work/data" --http-port 24437 --raft-port 25437 >"$work/ready" 2>"$work/dev.log" &
  cluster=$!
  until grep -q '^ready' "$work/ready"; do
    kill -0 "$cluster" 2>/dev/null || { cat "$work/dev.log" >&2; exit 1; }
    sleep 0.1
  done
  "$work/runlog" bench append --server http://127.0.0.1:24437 --writers "$1" --duration "$duration" >"$work/point" || { echo "compare: a point of runlog failed" >&2; exit 1; }
  record runlog "$1" <"$work/point"
  stop
  rm -rf "$work/data"
}
nats() { "$work/nats" -dir "$work/nats-data" -sync always -conc "$1" -dur "$duration" 2>/dev/null | grep p50= | record nats "$1"; }
etcd() { "$work/etcd" -dir "$work/etcd-data" -conc "$1" -dur "$duration" 2>/dev/null | grep p50= | record etcd "$1"; }

for round in $(seq "$rounds"); do
  for w in ${writers//,/ }; do
    echo "round $round, $w writers" >&2
    runlog "$w"
    nats "$w"
    etcd "$w"
  done
done
[ -z "$keep" ] || cp "$results" "$keep"

# median SYSTEM WRITERS COLUMN
median() { awk -F'\t' -v s="$1" -v w="$2" -v c="$3" '$1 == s && $2 == w { print $c }' "$results" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
ms() { awk -v us="$1" 'BEGIN { printf "%.2f", us / 1000 }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b; else printf "–" }'; }

echo "Medians of $rounds interleaved rounds of $duration, 256-byte events, three processes each on one machine; p50/p99 in ms."
echo
echo "| writers | runlog appends/s | p50/p99 | NATS R3 sync=always | p50/p99 | etcd | p50/p99 | to NATS | to etcd |"
echo "|---|---|---|---|---|---|---|---|---|"
for w in ${writers//,/ }; do
  row="| $w"
  for s in runlog nats etcd; do
    row+=" | $(median $s "$w" 3) | $(ms "$(median $s "$w" 4)") / $(ms "$(median $s "$w" 5)")"
  done
  ours=$(median runlog "$w" 3)
  echo "$row | $(ratio "$ours" "$(median nats "$w" 3)") | $(ratio "$ours" "$(median etcd "$w" 3)") |"
done
echo
"$work/runlog" bench floor --data "$work"
awk -F'\t' '$6 > 0 { printf "%s at %d writers had %d errors\n", $1, $2, $6 }' "$results"
