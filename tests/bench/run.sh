#!/usr/bin/env bash
# Publish and consume rates through a gateway, beside what the disk does by itself, in one run: A B A B, medians.
# Bytes are log bytes: records and what the format adds, as the broker counts them (sq_broker_append_bytes_total).
# Needs fio (Debian: fio), curl, and the programs of `make build` in bin/. Prints a table. Usage: run.sh [ROUNDS] [SECONDS] [BROKERS]
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-3}"
seconds="${2:-8}"
brokers="${3:-1}"
replicas=(--replication-factor "$((brokers < 3 ? 1 : 3))")
port="${SQ_BENCH_PORT:-17100}"
work="$(mktemp -d -p . .bench.XXXXXX)"
pids=()
cleanup() {
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; done
	rm -rf "$work"
}
trap cleanup EXIT
for tool in fio curl python3; do command -v "$tool" >/dev/null || { echo "bench: $tool is missing" >&2; exit 1; }; done

median() { sort -g | awk '{v[NR]=$1} END {print (NR%2) ? v[(NR+1)/2] : (v[NR/2]+v[NR/2+1])/2}'; }
# disk NAME BS ARGS: fio's bytes per second and p50 fdatasync in milliseconds.
disk() {
	fio --name="$1" --directory="$work" --rw=write --bs="$2" --fdatasync=1 --runtime="$seconds" --output-format=json "${@:3}" 2>/dev/null |
		python3 -c 'import json,sys; j=json.load(sys.stdin)["jobs"][0]; print(j["write"]["bw_bytes"], j["sync"]["lat_ns"]["percentile"]["50.000000"]/1e6)'
}
# fresh NAME BS MIB: never rewrites a block, for the size, of so many MiB a second, is above what it writes; fio takes the room at once.
fresh() { disk "$1" "$2" --size="$(($3 * seconds))m"; rm -f "$work/$1".*; }
field() { python3 -c 'import json,sys; d=json.load(sys.stdin)
for k in sys.argv[1].split("."): d=d[k]
print(d)' "$1"; }
logged() { curl -s "http://127.0.0.1:$((port + 3))/metrics" | awk '/^sq_broker_append_bytes_total/ {s+=$2} END {printf "%.0f\n", s}'; }
# publish NAME ARGS: appends log bytes per second and records per second to a file.
publish() {
	local before after
	before="$(logged)"
	bin/sq bench produce "${@:2}" --duration "${seconds}s" -o json >"$work/r.json"
	after="$(logged)"
	python3 -c 'import json,sys
d=json.load(open(sys.argv[1])); print((int(sys.argv[3])-int(sys.argv[2]))/int(sys.argv[4])/d["seconds"], d["records_per_second"], d["latency_ms"]["p50"], d["latency_ms"]["p99"])' \
		"$work/r.json" "$before" "$after" "$brokers" >>"$work/$1"
}
start() { # FLAGS
	bin/sq dev --data-dir "$work/sq" --capnp-host "127.0.0.1:$port" --grpc-host "127.0.0.1:$((port + 1))" --http-host "127.0.0.1:$((port + 2))" \
		--admin-host "127.0.0.1:$((port + 3))" --brokers "$brokers" "$@" >"$work/sq.log" 2>&1 &
	pids=($!)
	for _ in $(seq 200); do grep -q ready "$work/sq.log" && return; sleep 0.1; done
}
export SQ_ADDR="127.0.0.1:$port" SQ_API="127.0.0.1:$((port + 1))"
start
bin/sq topic create bench --no-tier "${replicas[@]}" >/dev/null
bin/sq topic create kept --no-tier "${replicas[@]}" --retention-bytes 256MiB --segment-bytes 64MiB >/dev/null # its files are recycled
bin/sq topic create spread --no-tier "${replicas[@]}" --partitions 256 >/dev/null
large=(--record-size 100 --batch-bytes 262144 --in-flight 5)
disk again 256k --size=1g --overwrite=1 --loops=1000 >/dev/null # lays the file out
for _ in $(seq "$rounds"); do
	fresh big 256k 1500 >>"$work/fio"
	publish fresh --topic bench "${large[@]}"
	disk again 256k --size=1g --overwrite=1 --loops=1000 >>"$work/fioagain"
	publish kept --topic kept "${large[@]}"
	publish medium --topic bench --record-size 100 --batch-bytes 65536 --in-flight 16
	fresh small 4k 100 >>"$work/fio4k"
	publish one --topic bench --record-size 100 --batch-bytes 1 --in-flight 1
	publish many --topic spread --record-size 100 --batch-bytes 1 --in-flight 256 --spread
done
bin/sq bench consume --topic bench --duration "${seconds}s" -o json >"$work/c.json"
kill "${pids[0]}"
wait "${pids[0]}" || true
rm -rf "$work/sq"
start --sync-policy none
bin/sq topic create bench --no-tier "${replicas[@]}" >/dev/null
publish none --topic bench "${large[@]}"
column() { cut -d' ' -f"$2" "$work/$1" | median; }
row() { printf '| %s | %s |\n' "$1" "$2"; }
row "fio 256 KiB write + fdatasync, fresh blocks, MB/s" "$(column fio 1 | awk '{printf "%.0f", $1/1e6}')"
row "publish 100 B records, 256 KiB batches, 5 in flight: log MB/s" "$(column fresh 1 | awk '{printf "%.0f", $1/1e6}')"
row "the same, records/s" "$(column fresh 2 | awk '{printf "%.0f", $1}')"
row "the same, 64 KiB batches, 16 in flight: log MB/s" "$(column medium 1 | awk '{printf "%.0f", $1/1e6}')"
row "fio 256 KiB write + fdatasync, the same blocks again, MB/s" "$(column fioagain 1 | awk '{printf "%.0f", $1/1e6}')"
row "publish as above into recycled files (retention 256 MiB): log MB/s" "$(column kept 1 | awk '{printf "%.0f", $1/1e6}')"
row "fio 4 KiB write + fdatasync, p50 of fdatasync, ms" "$(column fio4k 2)"
row "publish one record, one in flight, p50 ms" "$(column one 3)"
row "the same, p99 ms" "$(column one 4)"
row "publish one record to each of 256 partitions at a time: acks/s" "$(column many 2 | awk '{printf "%.0f", $1}')"
row "publish, --sync-policy none, records/s" "$(column none 2 | awk '{printf "%.0f", $1}')"
row "consume 100 B records, records/s" "$(field records_per_second <"$work/c.json" | awk '{printf "%.0f", $1}')"
