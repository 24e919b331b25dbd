#!/usr/bin/env bash
# Regenerates everything under proto/gen and proto/openapi/sq from the schemas. Needs capnp (Debian: capnproto) and the tools of `make tools` in bin/.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/bin:$PATH"
command -v capnp >/dev/null || { echo "gen: the capnp compiler is missing: apt-get install capnproto" >&2; exit 1; }
std="$(GOWORK=off go list -C tools -m -f '{{.Dir}}' capnproto.org/go/capnp/v3)/std"
rm -rf proto/gen proto/openapi/sq
for schema in batch peer tier wire; do
	out="proto/gen/capnp/${schema}capnp"
	mkdir -p "$out"
	capnp compile -I"$std" --src-prefix=proto/capnp -o"go:$out" "proto/capnp/$schema.capnp"
done
(cd proto && buf generate)
