#!/usr/bin/env bash
# One record a publish, to 1, 16, 256 and 4,096 partitions at once, through separate processes: acks per second, latency, and the fdatasyncs
# that strace counts in the broker for each ack. A cell is run twice, without strace for the rates and with it for the count.
# Needs fio (Debian: fio), strace, and the programs of `make build` in bin/. Prints rows of a Markdown table.
# Usage: partitions.sh [auto|always|never] [SECONDS] [PARTITIONS...]
set -euo pipefail
cd "$(dirname "$0")/../.."
mode="${1:-auto}"
seconds="${2:-4}"
counts=("${@:3}")
[ ${#counts[@]} -gt 0 ] || counts=(1 16 256 4096)
sizes=(100 4096)
publishers=16 # connections; each has a share of the partitions
source tests/bench/processes.sh

load() { # PARTITIONS SIZE SECONDS FILE
	local share=$(($1 / publishers))
	bin/sq bench produce --topic "p$1" --record-size "$2" --batch-bytes 1 --spread --clients "$publishers" --in-flight "$((share > 0 ? share : 1))" \
		--duration "$3s" -o json >"$4"
}
start --journal "$mode"
for n in "${counts[@]}"; do
	bin/sq topic create "p$n" --partitions "$n" --no-tier --replication-factor 1 >/dev/null
	load "$n" 100 1 "$work/warm.json" || true # leaders, connections and files
done
for n in "${counts[@]}"; do for size in "${sizes[@]}"; do load "$n" "$size" "$seconds" "$work/rate.$n.$size.json"; done; done
stopbroker
tracebroker fdatasync,fsync --journal "$mode"
calls() { grep -c 'sync(' "$work/trace" || true; }
for n in "${counts[@]}"; do
	load "$n" 100 1 "$work/warm.json" || true
	for size in "${sizes[@]}"; do
		before="$(calls)"
		load "$n" "$size" 2 "$work/count.json"
		after="$(calls)"
		records="$(field "$work/count.json" records)"
		rate="$work/rate.$n.$size.json"
		printf '| %s | %s | %s | %s | %s | %s | %s |\n' "$n" "$size" "$mode" "$(field "$rate" records_per_second)" "$(field "$rate" latency_ms.p50)" \
			"$(field "$rate" latency_ms.p99)" "$(python3 -c "print(f'{($after - $before) / max(1, $records):.4f}')")"
	done
done
stoptraced
fio4k
