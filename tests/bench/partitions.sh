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
port="${SQ_BENCH_PORT:-17000}"
publishers=16 # connections; each has a share of the partitions
work="$(mktemp -d -p . .bench.XXXXXX)"
pids=()
cleanup() {
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; done
	rm -rf "$work"
}
trap cleanup EXIT
for tool in fio strace curl python3; do command -v "$tool" >/dev/null || { echo "bench: $tool is missing" >&2; exit 1; }; done
[ -x bin/etcd ] || go build -C tests -o ../bin/etcd go.etcd.io/etcd/server/v3

run() { # NAME COMMAND: in the background, its output in a file
	local name="$1"
	shift
	"$@" >>"$work/$name.log" 2>&1 &
	pids+=($!)
}
ready() { # PORT
	for _ in $(seq 300); do curl -sf "http://127.0.0.1:$1/readyz" >/dev/null && return; sleep 0.1; done
	echo "bench: port $1 is not ready" >&2
	tail -5 "$work"/*.log >&2
	exit 1
}
etcd="http://127.0.0.1:$port"
run etcd bin/etcd --data-dir "$work/etcd" --listen-client-urls "$etcd" --advertise-client-urls "$etcd" --listen-peer-urls "http://127.0.0.1:$((port + 1))" --log-level error
run coordinator bin/sq-coordinator --node-id c1 --etcd "$etcd" --grpc-host "127.0.0.1:$((port + 2))" --http-host "127.0.0.1:$((port + 3))" --admin-host ""
run gateway bin/sq-gateway --node-id g1 --etcd "$etcd" --capnp-host "127.0.0.1:$((port + 4))" --grpc-host "127.0.0.1:$((port + 5))" \
	--http-host "127.0.0.1:$((port + 6))" --admin-host ""
broker=(bin/sq-broker --node-id 1 --etcd "$etcd" --data-dir "$work/broker" --journal "$mode" --capnp-host "127.0.0.1:$((port + 7))"
	--http-host "127.0.0.1:$((port + 8))" --admin-host "" --log-level warn)
export SQ_ADDR="127.0.0.1:$((port + 4))" SQ_API="127.0.0.1:$((port + 5))"

field() { python3 -c 'import json,sys; d=json.load(open(sys.argv[1]))
for k in sys.argv[2].split("."): d=d[k]
print(round(d, 2))' "$1" "$2"; }
load() { # PARTITIONS SIZE SECONDS FILE
	local share=$(($1 / publishers))
	bin/sq bench produce --topic "p$1" --record-size "$2" --batch-bytes 1 --spread --clients "$publishers" --in-flight "$((share > 0 ? share : 1))" \
		--duration "$3s" -o json >"$4"
}
sizes=(100 4096)
run broker "${broker[@]}"
plain="${pids[-1]}"
ready $((port + 8))
ready $((port + 6))
for n in "${counts[@]}"; do
	bin/sq topic create "p$n" --partitions "$n" --no-tier --replication-factor 1 >/dev/null
	load "$n" 100 1 "$work/warm.json" || true # leaders, connections and files
done
for n in "${counts[@]}"; do for size in "${sizes[@]}"; do load "$n" "$size" "$seconds" "$work/rate.$n.$size.json"; done; done
kill "$plain"
wait "$plain" || true
run strace strace -f --seccomp-bpf -e trace=fdatasync,fsync -o "$work/trace" "${broker[@]}"
ready $((port + 8))
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
pkill -P "${pids[-1]}" || true # the broker, so that strace ends
fio --name=small --directory="$work" --rw=write --bs=4k --size=4g --fdatasync=1 --runtime=4 --output-format=json 2>/dev/null |
	python3 -c 'import json,sys; j=json.load(sys.stdin)["jobs"][0]; p=j["sync"]["lat_ns"]["percentile"]
print("fio 4 KiB write + fdatasync: %.0f/s, fdatasync p50 %.3f ms, p99 %.3f ms" % (j["write"]["iops"], p["50.000000"]/1e6, p["99.000000"]/1e6))'
