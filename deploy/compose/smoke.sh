#!/usr/bin/env bash
# Sends files through a running compose cluster and compares what comes back: hot, after kill -9 of the broker, and from the bucket.
# Usage: smoke.sh FILE... ; SQ_ADDR and SQ_API as for sq; COMPOSE = how to call compose (default: docker compose -p sq -f …/compose.yaml).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
sq="$here/../../bin/sq"
compose=${COMPOSE:-docker compose -p sq -f $here/compose.yaml}
same() { # same WHAT FILE TOPIC
	want="$(sha256sum <"$2")"
	got="$("$sq" consume "$3" --from earliest --until-end --format raw | sha256sum)"
	[ "$want" = "$got" ] || { echo "smoke: $1: $2 came back changed" >&2; exit 1; }
	echo "$1: $2 ok"
}
for file in "$@"; do
	topic="smoke-$(basename "$file" | tr -c 'a-zA-Z0-9\n' -)"
	"$sq" topic create "$topic" --segment-bytes 65536 >/dev/null
	"$sq" produce "$topic" -f "$file" --format raw >/dev/null
	same hot "$file" "$topic"
done
$compose kill -s SIGKILL broker >/dev/null 2>&1
$compose up -d broker >/dev/null 2>&1
for file in "$@"; do
	topic="smoke-$(basename "$file" | tr -c 'a-zA-Z0-9\n' -)"
	same "after kill -9" "$file" "$topic"
	"$sq" topic seal "$topic" >/dev/null
done
for file in "$@"; do
	topic="smoke-$(basename "$file" | tr -c 'a-zA-Z0-9\n' -)"
	for _ in $(seq 60); do # the tierer uploads and exports in its own time
		"$sq" topic trim "$topic" --local >/dev/null
		read -r sealed local < <("$sq" topic describe "$topic" -o json |
			python3 -c 'import json,sys; p=json.load(sys.stdin)["partitionStates"][0]; print(p.get("sealedEnd",0), p.get("localStart",0))')
		[ "$sealed" = "$local" ] && break
		sleep 0.5
	done
	[ "$sealed" = "$local" ] || { echo "smoke: $topic: sealed to $sealed, local from $local" >&2; exit 1; }
	same "from the bucket" "$file" "$topic"
done
echo "smoke: all ok"
