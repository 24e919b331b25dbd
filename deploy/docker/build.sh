#!/usr/bin/env bash
# Builds the images seedqueue/<program>:<version> from static binaries. Usage: build.sh VERSION
set -euo pipefail
version="${1:?version}"
cd "$(dirname "$0")/../.."
arch="${GOARCH:-$(go env GOARCH)}"
context="$(mktemp -d)"
trap 'rm -rf "$context"' EXIT
mkdir "$context/data"
cp deploy/docker/Dockerfile "$context/"
for roots in /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem /etc/pki/tls/certs/ca-bundle.crt; do
	[ -f "$roots" ] && { cp -L "$roots" "$context/ca-certificates.crt"; break; }
done
[ -f "$context/ca-certificates.crt" ] || { echo "build: no CA roots on this machine" >&2; exit 1; }
programs=(sq:cli sq-broker:services/broker sq-coordinator:services/coordinator sq-gateway:services/gateway sq-tierer:services/tierer)
for program in "${programs[@]}"; do
	name="${program%%:*}"
	CGO_ENABLED=0 GOOS=linux GOARCH="$arch" go build -trimpath \
		-ldflags "-s -w -X github.com/seedqueue/sq/libs/version.linked=$version" -o "$context/$name" "./${program##*:}/cmd/$name"
done
# All binaries first: an engine without BuildKit builds every target above the one it is asked for.
for program in "${programs[@]}"; do
	name="${program%%:*}"
	docker build -q --target "$name" -t "seedqueue/$name:$version" -t "seedqueue/$name:dev" "$context"
done
