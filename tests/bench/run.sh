#!/usr/bin/env bash
# Publish and consume rates through a gateway, beside what the disk does by itself, in one run: A B A B, medians.
# Needs fio (Debian: fio) and the programs of `make build` in bin/. Prints a table. Usage: run.sh [ROUNDS] [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-3}"
seconds="${2:-10}"
work="$(mktemp -d -p . .bench.XXXXXX)"
pids=()
cleanup() {
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; done
	rm -rf "$work"
}
trap cleanup EXIT
command -v fio >/dev/null || { echo "bench: fio is missing: apt-get install fio" >&2; exit 1; }

median() { sort -g | awk '{v[NR]=$1} END {print (NR%2) ? v[(NR+1)/2] : (v[NR/2]+v[NR/2+1])/2}'; }
# disk NAME RW SIZE: fio's bytes per second and p50 fdatasync in milliseconds; never rewrites a block (size is above what it writes).
disk() {
	fio --name="$1" --directory="$work" --rw=write --bs="$2" --size=32g --fdatasync=1 --time_based=0 --runtime="$seconds" --output-format=json 2>/dev/null |
		python3 -c 'import json,sys; j=json.load(sys.stdin)["jobs"][0]; print(j["write"]["bw_bytes"], j["sync"]["lat_ns"]["percentile"]["50.000000"]/1e6)'
	rm -f "$work/$1".*
}
field() { python3 -c 'import json,sys; d=json.load(sys.stdin)
for k in sys.argv[1].split("."): d=d[k]
print(d)' "$1"; }

bin/sq dev --data-dir "$work/sq" >"$work/sq.log" 2>&1 &
pids+=($!)
for _ in $(seq 100); do grep -q ready "$work/sq.log" && break; sleep 0.1; done
bin/sq topic create bench --no-tier >/dev/null
: >"$work/fio" >"$work/fio4k" >"$work/sq" >"$work/one"
for round in $(seq "$rounds"); do
	disk big 256k | tee -a "$work/fio" >/dev/null
	bin/sq bench produce --topic bench --record-size 100 --batch-bytes 262144 --in-flight 5 --clients 1 --duration "${seconds}s" -o json >"$work/r.json"
	cat "$work/r.json" >>"$work/sq.json"
	echo "$(field bytes_per_second <"$work/r.json") $(field records_per_second <"$work/r.json")" >>"$work/sq"
	disk small 4k >>"$work/fio4k"
	bin/sq bench produce --topic bench --record-size 100 --batch-bytes 1 --in-flight 1 --clients 1 --duration "${seconds}s" -o json >"$work/o.json"
	field latency_ms.p50 <"$work/o.json" >>"$work/one"
done
bin/sq bench consume --topic bench --duration "${seconds}s" -o json >"$work/c.json"
printf '%-58s %s\n' \
	"fio 256 KiB write + fdatasync, bytes/s" "$(cut -d' ' -f1 "$work/fio" | median)" \
	"sq publish 100 B records, 256 KiB batches, bytes/s" "$(cut -d' ' -f1 "$work/sq" | median)" \
	"sq publish, records/s" "$(cut -d' ' -f2 "$work/sq" | median)" \
	"fio 4 KiB write + fdatasync, p50 fdatasync ms" "$(cut -d' ' -f2 "$work/fio4k" | median)" \
	"sq publish one record, one in flight, p50 ms" "$(median <"$work/one")" \
	"sq consume 100 B records, records/s" "$(field records_per_second <"$work/c.json")"
