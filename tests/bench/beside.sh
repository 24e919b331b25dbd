#!/usr/bin/env bash
# What a publish notices of work beside it: compaction, and ten readers of old records that are not in the page cache. What a slow reader
# costs the broker. How old records leave it (strace). Through separate processes.
# Needs fio, strace, and the programs of `make build` in bin/. Usage: beside.sh [SECONDS] [MIB OF OLD RECORDS]
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds="${1:-5}"
old="${2:-1024}"
source tests/bench/processes.sh

hot() { # WHAT: publishes 1 KiB records in batches of 16 KiB, 4 at a time
	bin/sq bench produce --topic hot --record-size 1024 --batch-bytes 16384 --in-flight 4 --duration "${seconds}s" -o json >"$work/hot.json"
	printf '| %s | %s | %s | %s |\n' "$1" "$(field "$work/hot.json" records_per_second)" "$(field "$work/hot.json" latency_ms.p50)" \
		"$(field "$work/hot.json" latency_ms.p99)"
}
cool() { # drops the logs from the page cache
	find "$work/broker" -name '*.log' -exec dd if={} iflag=nocache count=0 status=none \;
}
start --compact-rate 0
for topic in hot old; do bin/sq topic create "$topic" --no-tier --replication-factor 1 >/dev/null; done
bin/sq topic create keyed --cleanup compact --segment-bytes 16MiB --replication-factor 1 >/dev/null
bin/sq bench produce --topic hot --duration 1s -o json >/dev/null
while [ "$(du -sm "$work/broker" | cut -f1)" -lt "$old" ]; do bin/sq bench produce --topic old --batch-bytes 262144 --duration 1s -o json >/dev/null; done
python3 -c 'import json
value = "x" * 1000
for i in range(200000): print(json.dumps({"key": "k%d" % (i * 7919 % 20000), "value": value}))' >"$work/keyed.json"
bin/sq produce keyed -f "$work/keyed.json" --format json >/dev/null
rm "$work/keyed.json"

hot "alone"
cool
bin/sq bench consume --topic old --clients 10 --duration "$((seconds + 2))s" -o json >"$work/readers.json" &
sleep 1
hot "beside 10 readers of old records"
wait $!
echo "the readers read $(field "$work/readers.json" records_per_second) records/s"
stopbroker
startbroker
hot_during() {
	for _ in $(seq 100); do [ "$(metric sq_broker_compaction_running)" = 1 ] && break; sleep 0.1; done
	hot "beside compaction at 32 MiB/s"
	echo "compaction has read $(metric sq_broker_compaction_read_bytes_total) bytes, and is $([ "$(metric sq_broker_compaction_running)" = 1 ] && echo running || echo at its end)"
}
hot_during
hot "alone again"

rss() { awk '/^VmRSS/ {print $2}' "/proc/$plain/status"; }
before="$(rss)"
slow=()
for _ in $(seq 20); do
	bin/sq consume old > >(sleep 8) 2>/dev/null & # reads what a pipe holds, and no more
	slow+=($!)
done
sleep 5
echo "20 readers that take nothing: the broker's memory was $before KiB, is $(rss) KiB; heap $(metric go_memstats_heap_inuse_bytes) bytes"
for pid in "${slow[@]}"; do kill "$pid" 2>/dev/null || true; done
stopbroker
tracebroker sendfile
bin/sq bench consume --topic old --duration 2s -o json >"$work/sent.json"
stoptraced
sent="$(grep -o 'sendfile(.*= [0-9]*$' "$work/trace" | awk '{n++; s+=$NF} END {print n+0 " sendfile calls, " s+0 " bytes"}')"
echo "a reader of $(field "$work/sent.json" bytes) bytes of values: $sent"
