// Package openapi embeds the OpenAPI documents that are generated from the gRPC services' REST annotations.
//
//  1. Each document is what protoc-gen-openapiv3 wrote, one a proto file: `tools/gen.sh` renews them, nobody edits them.
//
// Called by the gateway, which merges them with its hand-written routes and serves the result at /openapi.json. Pure data, safe for
// concurrent use.
package openapi
