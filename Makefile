# The verbs of SQ. `make` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION := $(shell cat VERSION)
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null)
LDFLAGS := -s -w -X github.com/seedqueue/sq/libs/version.linked=$(VERSION)$(if $(COMMIT),+$(COMMIT))
BINARIES := cli/cmd/sq services/broker/cmd/sq-broker services/coordinator/cmd/sq-coordinator services/gateway/cmd/sq-gateway services/tierer/cmd/sq-tierer
MODULES := $(shell sed -n 's/^\t\.\///p' go.work)
GO_TOOLS := capnpc-go gofumpt protoc-gen-go protoc-gen-go-grpc protoc-gen-grpc-gateway protoc-gen-openapiv3
export PATH := $(CURDIR)/bin:$(PATH)

.PHONY: help
help: ## List the verbs.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: dev
dev: ## Run all of SQ in one process; data under ./.sq.
	@[ -x bin/sq ] || echo 'building bin/sq: the first time takes minutes'
	@go build -trimpath -ldflags '$(LDFLAGS)' -o bin/sq ./cli/cmd/sq
	@exec bin/sq dev $(ARGS)

.PHONY: build
build: ## Build the five programs into bin/.
	@mkdir -p bin
	@for b in $(BINARIES); do CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./$$b; done

.PHONY: install
install: ## Install sq into GOBIN.
	go install -trimpath -ldflags '$(LDFLAGS)' ./cli/cmd/sq

.PHONY: test
test: ## All tests: unit, model, crash sample, end to end.
	go test -timeout 15m work

.PHONY: race
race: ## All tests but the end-to-end ones, under the race detector and with freed buffers overwritten.
	go test -race -tags sqdebug -timeout 15m $$(go list work | grep -v '/tests/e2e$$')

.PHONY: e2e
e2e: ## End-to-end tests against every shape.
	go test -count=1 -timeout 15m ./tests/...

FUZZTIME ?= 60s
.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME (60s).
	@tools/fuzz.sh $(FUZZTIME)

.PHONY: crash
crash: ## Every crash point and every damaged bit of the log (long).
	SQ_CRASH=full go test -count=1 -timeout 12h ./services/broker/internal/wal/ ./services/broker/internal/commit/ ./services/broker/internal/journal/

ROUNDS ?= 200
FS ?=
SEED ?=
CLUSTER ?=
.PHONY: chaos
chaos: ## ROUNDS (200) of kill -9 and worse under load; FS=ext4|xfs on a mounted image (root); CLUSTER=3: several brokers.
	@tests/chaos/run.sh $(ROUNDS) "$(FS)" "$(SEED)" "$(CLUSTER)"

N ?= 1000000
.PHONY: model
model: ## The model of protocol and storage over N seeds (1000000).
	SQ_MODEL_SEEDS=$(N) go test -count=1 -timeout 12h -run TestNoSeedViolates -v ./services/broker/internal/sim/model/

.PHONY: sim
sim: ## The brokers' real replication code on one thread over N new seeds (2000 if not given); SEED=: that one, told line by line.
	@if [ -n "$(SEED)" ]; then SQ_SIM_SEED=$(SEED) go test -count=1 -run 'TestSeed$$' -v ./services/broker/internal/sim/; \
	else $(if $(filter command line environment,$(origin N)),SQ_SIM_SEEDS=$(N)) go test -count=1 -timeout 12h -run 'TestKnownSeeds|TestNewSeeds' -v ./services/broker/internal/sim/; fi

.PHONY: mutants
mutants: ## Remove each rule of replication from the real code: a scenario has to notice.
	go test -count=1 -tags sqmutant -run 'TestScenarios|TestMutants' ./services/broker/internal/sim/

PARTITIONS ?= 10000
LOG ?= 50GiB
.PHONY: footprint
footprint: ## What PARTITIONS (10000) idle partitions cost, and how long LOG (50GiB, sparse) takes to open.
	SQ_FOOTPRINT=$(PARTITIONS) go test -count=1 -timeout 10m -run 'TestFootprint$$' -v ./services/broker/
	SQ_FOOTPRINT_LOG=$(LOG) go test -count=1 -timeout 10m -run TestOpenLargeLogs -v ./services/broker/internal/wal/

.PHONY: bench
bench: build ## Rates of sq bench beside the disk's own fdatasync.
	tests/bench/run.sh

.PHONY: tools
tools: bin/.tools ## Build the pinned generators into bin/.
bin/.tools: tools/go.mod tools/buf/go.mod
	@mkdir -p bin
	GOWORK=off GOBIN=$(CURDIR)/bin go -C tools install tool
	GOWORK=off GOBIN=$(CURDIR)/bin go -C tools/buf install tool
	@touch $@

bin/golangci-lint: tools/lint/go.mod
	GOWORK=off GOBIN=$(CURDIR)/bin go -C tools/lint install tool
	@touch $@

.PHONY: gen
gen: bin/.tools ## Regenerate everything generated (needs the capnp compiler).
	tools/gen.sh
	gofumpt -w proto/gen 2>/dev/null || true

.PHONY: gen-check
gen-check: gen ## Prove that what is generated is fresh.
	@git diff --exit-code --stat -- proto/gen docs/reference || { echo "gen-check: generated files are stale: run make gen and commit" >&2; exit 1; }

.PHONY: modules
modules: ## Write go.work and the sibling blocks of every go.mod; tidy.
	tools/modules.sh

.PHONY: modules-check
modules-check: ## Prove that each module builds alone and is tidy.
	tools/modules.sh --check

.PHONY: fmt
fmt: bin/.tools ## Format.
	gofumpt -l -w $$(git ls-files '*.go' | grep -v '^proto/gen/')

.PHONY: tidy
tidy: ## Architecture and style as tests.
	GOWORK=off go -C tools test -count=1 ./tidy

.PHONY: lint
lint: tidy bin/.tools bin/golangci-lint ## Architecture tests, go vet, golangci-lint, buf lint.
	@unformatted=$$(gofumpt -l $$(git ls-files '*.go' | grep -v '^proto/gen/')); [ -z "$$unformatted" ] || { echo "lint: run make fmt:" $$unformatted >&2; exit 1; }
	go vet work
	@for m in $(MODULES); do (cd $$m && golangci-lint run ./...); done
	cd proto && buf lint .

.PHONY: cross
cross: ## Build every program for linux and darwin, amd64 and arm64.
	@for os in linux darwin; do for arch in amd64 arm64; do for b in $(BINARIES); do \
		CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch go build -trimpath -o /dev/null ./$$b || { echo "cross: $$b does not build for $$os/$$arch" >&2; exit 1; }; \
	done; echo "cross: $$os/$$arch ok"; done; done

.PHONY: check
check: gen-check modules-check lint cross race test mutants ## Exactly what must be green to merge.
	@tools/fuzz.sh 3s

.PHONY: images
images: build ## Container images sq and sq-{broker,coordinator,gateway,tierer}, from static binaries.
	deploy/docker/build.sh $(VERSION)

.PHONY: clean
clean: ## Remove what was built.
	rm -rf bin dist
