# Sourced by the scripts here: one of each process of SQ but the tierer, on ports of their own from SQ_BENCH_PORT on, in $work, which ends with
# the script. The programs are those of `make build` in bin/.
port="${SQ_BENCH_PORT:-17000}"
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
broker=(bin/sq-broker --node-id 1 --etcd "$etcd" --data-dir "$work/broker" --capnp-host "127.0.0.1:$((port + 7))"
	--http-host "127.0.0.1:$((port + 8))" --admin-host "127.0.0.1:$((port + 9))" --log-level warn)
export SQ_ADDR="127.0.0.1:$((port + 4))" SQ_API="127.0.0.1:$((port + 5))"
start() { # FLAGS of the broker
	run etcd bin/etcd --data-dir "$work/etcd" --listen-client-urls "$etcd" --advertise-client-urls "$etcd" --listen-peer-urls "http://127.0.0.1:$((port + 1))" --log-level error
	run coordinator bin/sq-coordinator --node-id c1 --etcd "$etcd" --grpc-host "127.0.0.1:$((port + 2))" --http-host "127.0.0.1:$((port + 3))" --admin-host ""
	run gateway bin/sq-gateway --node-id g1 --etcd "$etcd" --capnp-host "127.0.0.1:$((port + 4))" --grpc-host "127.0.0.1:$((port + 5))" \
		--http-host "127.0.0.1:$((port + 6))" --admin-host ""
	startbroker "$@"
	ready $((port + 6))
}
startbroker() { # FLAGS
	run broker "${broker[@]}" "$@"
	plain="${pids[-1]}"
	ready $((port + 8))
}
stopbroker() {
	kill "$plain"
	wait "$plain" || true
}
# tracebroker CALLS FLAGS: the broker below strace, which stops it at these calls only.
tracebroker() {
	run strace strace -f --seccomp-bpf -e "trace=$1" -o "$work/trace" "${broker[@]}" "${@:2}"
	traced="${pids[-1]}"
	ready $((port + 8))
}
stoptraced() { kill "$(cat "/proc/$traced/task/$traced/children")" && wait "$traced" || true; }
field() { python3 -c 'import json,sys; d=json.load(open(sys.argv[1]))
for k in sys.argv[2].split("."): d=d[k]
print(round(d, 2))' "$1" "$2"; }
metric() { curl -s "http://127.0.0.1:$((port + 9))/metrics" | awk -v name="$1" '$1 == name {printf "%.0f\n", $2}'; }
fio4k() {
	fio --name=small --directory="$work" --rw=write --bs=4k --size=400m --fdatasync=1 --runtime=4 --output-format=json 2>/dev/null |
		python3 -c 'import json,sys; j=json.load(sys.stdin)["jobs"][0]; p=j["sync"]["lat_ns"]["percentile"]
print("fio 4 KiB write + fdatasync: %.0f/s, fdatasync p50 %.3f ms, p99 %.3f ms" % (j["write"]["iops"], p["50.000000"]/1e6, p["99.000000"]/1e6))'
	rm -f "$work/small".*
}
