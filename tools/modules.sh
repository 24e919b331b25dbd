#!/usr/bin/env bash
# Writes go.work and, into every go.mod, the sibling requires (at the version in VERSION) and the whole list of transitive replaces,
# from the layer table below; then tidies. With --check it tells what differed and builds each module by itself.
set -euo pipefail
cd "$(dirname "$0")/.."
root=github.com/seedqueue/sq
version="v$(cat VERSION)"

# module: the siblings it may import, and what these import in turn.
layers() {
	case "$1" in
	proto) ;;
	libs | sdk/go) echo proto ;;
	services/allinone) echo proto libs services/broker services/coordinator services/gateway services/tierer ;;
	services/*) echo proto libs ;;
	cli | tests) echo proto libs services/broker services/coordinator services/gateway services/tierer services/allinone sdk/go ;;
	esac
}
modules=(proto libs services/broker services/coordinator services/gateway services/tierer services/allinone sdk/go cli tests)

state() { cat go.work "${modules[@]/%//go.mod}" 2>/dev/null | sha256sum || true; }
before=$(state)
{
	printf 'go 1.26.0\n\nuse (\n'
	printf '\t./%s\n' "${modules[@]}" | sort
	printf ')\n'
} >go.work
for module in "${modules[@]}"; do
	[ -f "$module/go.mod" ] || (cd "$module" && GOWORK=off go mod init "$root/$module")
	up=$(printf '%s' "$module" | sed -E 's#[^/]+#..#g')
	for sibling in $(layers "$module"); do
		GOWORK=off go mod edit -C "$module" -replace "$root/$sibling=$up/$sibling"
		if grep -rqsE --include='*.go' "\"$root/$sibling[/\"]" "$module"; then
			GOWORK=off go mod edit -C "$module" -require "$root/$sibling@$version"
		fi
	done
	GOWORK=off go mod edit -C "$module" -go 1.26.0
	[ "${1:-}" = --no-tidy ] || GOWORK=off go mod tidy -C "$module"
done
if [ "${1:-}" = --check ]; then
	# The workspace forgives a missing require; a module alone does not.
	for module in "${modules[@]}"; do GOWORK=off go build -C "$module" ./...; done
fi
if [ "${1:-}" = --check ] && [ "$before" != "$(state)" ]; then
	echo "modules: go.work or a go.mod is stale: run make modules" >&2
	exit 1
fi
