#!/usr/bin/env bash
# Sends files through a running compose cluster and compares what comes back: hot, after kill -9 of the leader's container, of each coordinator and of
# each gateway while records go in, and from the bucket.
# Usage: smoke.sh FILE... ; SQ_ADDR and SQ_API as for sq (default: both gateways); COMPOSE = how to call compose (default: docker compose -p sq -f …).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
sq="$here/../../bin/sq"
compose=${COMPOSE:-docker compose -p sq -f $here/compose.yaml}
export SQ_ADDR="${SQ_ADDR:-localhost:6064,localhost:7064}" SQ_API="${SQ_API:-localhost:6060,localhost:7060}"
fail() { echo "smoke: $*" >&2; exit 1; }
same() { # same WHAT FILE TOPIC [TIMES]
	want="$(for _ in $(seq "${4:-1}"); do cat "$2"; done | sha256sum)"
	got="$("$sq" consume "$3" --from earliest --until-end --format raw | sha256sum)"
	[ "$want" = "$got" ] || fail "$1: $2 came back changed: ${got%% *}, not ${want%% *}"
	echo "$1: $2 ok ${want%% *}"
}
topic_of() { echo "smoke-$(basename "$1" | tr -c 'a-zA-Z0-9\n' -)"; }
partition() { # partition TOPIC FIELD...
	"$sq" topic describe "$1" -o json | python3 -c 'import json,sys
p=json.load(sys.stdin)["partitionStates"][0]
print(*(p.get(k) or 0 for k in sys.argv[1:]))' "${@:2}"
}
# without SERVICE FILE TOPIC TIMES: the file goes in once more while the container is killed and stays down, and all is as it went in.
without() {
	for _ in $(seq 20); do cat "$2"; done | "$sq" produce "$3" --format raw >/dev/null &
	producing=$!
	$compose kill -s SIGKILL "$1" >/dev/null 2>&1
	wait "$producing" || fail "produce failed while $1 was killed"
	same "without $1" "$2" "$3" "$4"
	$compose up -d "$1" >/dev/null 2>&1
}
for file in "$@"; do
	topic="$(topic_of "$file")"
	"$sq" topic create "$topic" --replication-factor 3 --segment-bytes 262144 >/dev/null
	"$sq" produce "$topic" -f "$file" --format raw >/dev/null
	same hot "$file" "$topic"
done
times=1
for service in leader coordinator-1 coordinator-2 gateway-1 gateway-2; do
	times=$((times + 20))
	for file in "$@"; do
		topic="$(topic_of "$file")"
		name="$service"
		[ "$name" = leader ] && name="broker-$(partition "$topic" leader)"
		without "$name" "$file" "$topic" "$times"
	done
done
for file in "$@"; do
	"$sq" topic seal "$(topic_of "$file")" >/dev/null
done
for file in "$@"; do
	topic="$(topic_of "$file")"
	for _ in $(seq 120); do # the tierer uploads and exports in its own time
		"$sq" topic trim "$topic" --local >/dev/null
		read -r sealed local < <(partition "$topic" sealedEnd localStart)
		[ "$sealed" = "$local" ] && break
		sleep 0.5
	done
	[ "$sealed" = "$local" ] || fail "$topic: sealed to $sealed, local from $local"
	same "from the bucket" "$file" "$topic" "$times"
done
echo "smoke: all ok"
