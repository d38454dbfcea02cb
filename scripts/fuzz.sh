#!/usr/bin/env bash
# Fuzzes each fuzz target of the module for the given time (default 30s).
set -euo pipefail
cd "$(dirname "$0")/.."
for pkg in $(go list ./...); do
  for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
    echo "== $pkg $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${1:-30s}" "$pkg"
  done
done
