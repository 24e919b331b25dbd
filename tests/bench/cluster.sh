#!/usr/bin/env bash
# Measures a cluster of processes on this machine and prints tables. Usage: cluster.sh [WHAT]; WHAT is one or more, with commas, of
#   failover  killed, stopped, isolated leader and planned transfer, for PARTITIONS (100) partitions, ROUNDS (5) times each: time to the first ack
#   rates     publishing at three replicas beside one, in turns, and beside what fio does on the same disk; SECONDS (5) each
#   idle      what PARTITIONS (10000) partitions with three replicas and no traffic cost
# An isolated leader and network bytes need root and network namespaces; rates uses fio where it is.
set -euo pipefail
cd "$(dirname "$0")/../.."
SQ_BENCH="${1:-failover,rates,idle}" exec go test -count=1 -v -timeout 2h -run '^TestMeasure$' ./tests/bench/ | grep -vE '^(=== |--- PASS|PASS|ok )'
