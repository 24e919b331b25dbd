#!/usr/bin/env bash
# Runs every fuzz target of the workspace for the given time each.
set -euo pipefail
cd "$(dirname "$0")/.."
time="${1:-60s}"
out="$(mktemp)"
trap 'rm -f "$out"' EXIT
while IFS=: read -r file target; do
	echo "fuzz: $target in $(dirname "$file")"
	go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -timeout 2h >"$out" 2>&1 || {
		cat "$out" >&2
		exit 1
	}
	tail -2 "$out" | head -1
done < <(git ls-files '*_test.go' | xargs grep -noE '^func (Fuzz[A-Za-z0-9_]+)' /dev/null | sed -E 's/:[0-9]+:func /:/')
