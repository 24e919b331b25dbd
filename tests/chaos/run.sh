#!/usr/bin/env bash
# Many rounds of faults under load, with a check of every acknowledged record behind each. Usage: run.sh [ROUNDS] [FS] [SEED] [CLUSTER]
# CLUSTER is a number of brokers, 3 at least, for faults of several (links are cut where this is root and has network namespaces); without it there
# is one broker.
# FS is ext4 or xfs: an image of that kind is made, mounted for the broker's data, cut from power between rounds, and removed (needs root, loop
# devices and mkfs). Without FS the data is where temporary files are, and there are no power cuts. Evidence of a failure stays in dist/chaos-*.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-200}"
fs="${2:-}"
cluster="${4:-}"
test="${cluster:+TestCluster}"
[ -z "$cluster$fs" ] || [ -z "$cluster" ] || [ -z "$fs" ] || { echo "chaos: FS= is for one broker, CLUSTER= for several" >&2; exit 1; }
case "$fs" in
"") ;;
ext4 | xfs)
	[ "$(id -u)" = 0 ] || { echo "chaos: FS=$fs mounts an image, which needs root; without FS= no root is needed" >&2; exit 1; }
	for program in "mkfs.$fs" mount umount losetup; do
		command -v "$program" >/dev/null || { echo "chaos: FS=$fs needs $program, which is missing" >&2; exit 1; }
	done
	losetup -f >/dev/null 2>&1 || { echo "chaos: FS=$fs needs a loop device, and there is none" >&2; exit 1; }
	;;
*) echo "chaos: FS=$fs is not ext4, xfs or empty" >&2; exit 1 ;;
esac
scratch="$(mktemp -d)"
cleanup() { # the test removes what it made; this is for one that was killed
	awk -v dir="$scratch/" 'index($2, dir) == 1 {print $2}' /proc/self/mounts 2>/dev/null | while read -r mounted; do umount -l "$mounted" || true; done
	rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
keep="$PWD/dist/chaos-${fs:-here}${cluster:+-$cluster}"
rm -rf "$keep"
mkdir -p "$keep" "$scratch/bin" "$scratch/tmp"
# Programs of its own, so that a build during the run does not change what is started.
SQ_BIN="$scratch/bin" SQ_CHAOS_ROUNDS="$rounds" SQ_CHAOS_FS="$fs" SQ_CHAOS_SEED="${3:-}" SQ_CHAOS_KEEP="$keep" TMPDIR="$scratch/tmp" \
	SQ_CHAOS_CLUSTER="$cluster" go test -count=1 -v -timeout 24h -run "^${test:-TestRounds}\$" ./tests/chaos/
rmdir "$keep"
