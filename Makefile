# Partner Edge. `make help` lists the targets.

GO      ?= go
DATA    ?= data
ARGS    ?=
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# One set of flags for building, vetting and testing: each package is compiled once.
# Compilers live for seconds, so they collect their garbage seldom, unless they get large.
# What debuggers read is a tenth of their work, and no program here keeps it.
SELDOM  := "-toolexec=env GOGC=400 GOMEMLIMIT=1GiB"
NODWARF := -gcflags=all=-dwarf=false
GIVEN   := $(filter-out -trimpath $(SELDOM) $(NODWARF),$(GOFLAGS))
export GOFLAGS := $(NODWARF) $(GIVEN) -trimpath $(if $(findstring -toolexec,$(GIVEN)),,$(SELDOM))

# Without cgo, so that the program starts where there is no C library, as in the image.
# Only the race detector and the engine wasmtime need one.
export CGO_ENABLED ?= 0

MODULES := $(notdir $(patsubst %/,%,$(dir $(wildcard wasm/modules/*/manifest.json))))
WASM    := $(MODULES:%=build/modules/%.wasm)
GUEST   := $(shell find wasm -path wasm/examples -prune -o -name '*.go' -not -name '*_test.go' -print) go.mod go.sum

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: modules build/sandbox.wasm ## build/edge, build/modules/*.wasm, build/sandbox.wasm
	$(GO) build -trimpath -buildvcs=false -ldflags='-s -w -X main.version=$(VERSION)' -o build/edge ./edge

DESTDIR ?=
PREFIX  ?= /usr
INSTALL ?= install
FROM    ?= build

.PHONY: install
install: ## what `make build` built: program, modules, units, manual, completion (DESTDIR=dir, PREFIX=/usr)
	$(INSTALL) -D -m 755 $(FROM)/edge $(DESTDIR)$(PREFIX)/bin/edge
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/lib/edge/modules $(DESTDIR)$(PREFIX)/lib/systemd/system \
		$(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(INSTALL) -m 644 $(MODULES:%=$(FROM)/modules/%.wasm) $(MODULES:%=$(FROM)/modules/%.json) $(DESTDIR)$(PREFIX)/lib/edge/modules
	$(INSTALL) -m 644 $(FROM)/sandbox.wasm $(DESTDIR)$(PREFIX)/lib/edge
	for unit in edge-origin edge-node; do \
		sed 's,/usr/bin/,$(PREFIX)/bin/,; s,/usr/lib/,$(PREFIX)/lib/,' edge/systemd/$$unit.service \
			> $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit.service || exit; \
	done
	$(FROM)/edge man > $(DESTDIR)$(PREFIX)/share/man/man1/edge.1
	$(FROM)/edge completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/edge

.PHONY: modules
modules: $(WASM) ## build/modules/*.wasm, each with its manifest

build/modules/%.wasm: $(GUEST) wasm/modules/%/main.go wasm/modules/%/manifest.json scripts/build-module wasm/modules.pgo
	scripts/build-module wasm/modules/$* build/modules

build/sandbox.wasm: $(GUEST) scripts/build-module wasm/modules.pgo
	scripts/build-module wasm/modules/sandbox build

.PHONY: guest-profile
guest-profile: ## wasm/modules.pgo, by which modules are compiled, measured anew
	$(GO) test -c -o build/guest.test ./wasm/guest
	for run in 1 2 3; do \
		build/guest.test -test.run '^$$' -test.bench '^BenchmarkModules$$' -test.benchtime 2s \
			-test.cpuprofile build/guest-$$run.prof || exit; \
	done
	$(GO) tool pprof -proto build/guest-[123].prof > build/modules.pgo
	mv build/modules.pgo wasm/modules.pgo

.PHONY: run
run: build ## origin and one node on loopback, ready to be tried (DATA=dir, ARGS=flags)
	build/edge dev --data $(DATA) $(ARGS)

# Test programs have no versions of their libraries in them: wazero then calls
# its cache "dev", and so has to be told when it compiles for them.
PRECOMPILE = $(GO) run -ldflags='-X github.com/tetratelabs/wazero/internal/version.version=dev' ./scripts/precompile

# The race detector needs a C compiler. It does not watch what reads and compiles
# modules, which it makes ten times as slow, nor two packages that take it minutes to
# compile. Each shares nothing with others but through locks, and has no generic type of
# sync, nor its Map, whose code the linker might take from there for all others.
WAZERO    := github.com/tetratelabs/wazero/internal
WAZEVO    := $(WAZERO)/engine/wazevo
UNWATCHED := $(WAZEVO)/backend/... $(WAZEVO)/frontend $(WAZEVO)/ssa $(WAZERO)/leb128 \
	$(WAZERO)/wasm/binary partneredge/host/prepare \
	modernc.org/sqlite/lib github.com/chromedp/cdproto/...
RACE ?= $(if $(shell command -v $(shell $(GO) env CC)),-race $(UNWATCHED:%='-gcflags=%=-race=false -dwarf=false'))

# A program that the race detector watches waits for a second at its end, for reports of
# threads that still run. Tests end none of theirs so late.
export GORACE ?= atexit_sleep_ms=100

WITH_RACE := $(if $(RACE),CGO_ENABLED=1)

# Tests wait more than they compute: so many of a package run at once, whatever the machine,
# and a package more than there are processors, those that take longest first.
PARALLEL := -parallel 4 -p $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
LONG     := ./edge/command ./edge/node ./store/central ./edge/webhook ./edge/authoring ./edge/origin ./edge/console ./host

# What runs the tests, given a file for their events, flags and packages. The
# events say at the end what was not tested.
GOTEST ?= scripts/gotest
EVENTS := build/test-events

# How inputs are looked for once all tests have passed; empty: not at all.
FUZZ ?= scripts/fuzz

TRAP := edge/command/testdata/modules/trap

build/modules-bad/trap.wasm: $(GUEST) $(wildcard $(TRAP)/*) scripts/build-module wasm/modules.pgo
	scripts/build-module $(TRAP) build/modules-bad

# `go tool` would compile it, and Go's own packages, with flags of its own.
build/gotestsum: go.mod go.sum
	$(GO) build -o $@ gotest.tools/gotestsum

.PHONY: test-ready
test-ready: modules build/sandbox.wasm build/modules-bad/trap.wasm build/gotestsum
	$(PRECOMPILE) build/modules build/modules/.cache
	$(PRECOMPILE) build/modules-bad build/modules/.cache

.PHONY: test
test: test-ready ## every test, with the race detector, then each fuzz target for a moment
	@rm -rf $(EVENTS) && mkdir -p $(EVENTS)
	$(MAKE) -j3 test-all $(if $(RACE),test-unwatched test-wasmtime)
	$(FUZZ)
	@$(GO) run ./scripts/nottested $(EVENTS)/*.json
	$(if $(RACE),,@echo 'NOT TESTED: data races and the engine wasmtime, which need a C compiler')

.PHONY: test-all
test-all:
	$(WITH_RACE) $(GOTEST) $(EVENTS)/test.json $(RACE) $(PARALLEL) -timeout 30m $(LONG) ./...

# These take what the others leave of the processors: nothing in them waits for a real clock.
.PHONY: test-unwatched
test-unwatched: ## the tests of one goroutine, or on a virtual clock, that the race detector makes minutes of
	@mkdir -p $(EVENTS)
	nice $(GOTEST) $(EVENTS)/$@.json -timeout 30m -run 'Simulated|TestSpec|TestOutboxPowerCut|TestOutboxFailingDisk|TestOpenSyncs' \
		./edge/webhook ./host/prepare ./store/local/outbox

# The host's packages whose tests run modules, and so depend on the engine.
ON_ENGINE = $(shell $(WITH_RACE) $(GO) list -test -tags wasmtime \
	-f '{{range .Deps}}{{if eq . "partneredge/host/wasmtime"}}{{$$.ForTest}}{{end}}{{end}}' ./host/... | sort -u)

.PHONY: test-wasmtime
test-wasmtime: test-ready ## the module host's tests under its other engine
	@mkdir -p $(EVENTS)
	$(WITH_RACE) $(GOTEST) $(EVENTS)/$@.json -tags wasmtime $(RACE) $(PARALLEL) -timeout 30m $(ON_ENGINE)

.PHONY: fuzz
fuzz: modules ## look for inputs that fail, two seconds a fuzz target
	$(FUZZ)

.PHONY: mutants
mutants: modules ## what the tests notice of changed code (ARGS='-targets outbox -sample 0')
	$(GO) run ./scripts/mutants $(ARGS)

.PHONY: check
check: ## format, vet, lint, tidy, generated files up to date
	$(WITH_RACE) CHECK_FLAGS="$(RACE)" scripts/check

.PHONY: bench-sandbox bench-http bench-sync bench-webhook bench-release bench-hotset bench-abuse bench-scale sim-regions torture
bench-sandbox: build ## what a request costs in its sandbox
	$(GO) test -run '^$$' -bench '^BenchmarkFigures$$' -benchtime 1x -timeout 3m ./host
bench-http: build ## requests a second through a node
	-npm install --silent --no-audit --no-fund --prefix build/workerd workerd@1.20261117.1
	-scripts/bench/http/peers/build build/peers
	$(GO) run ./scripts/bench/http
bench-sync: build ## how fast nodes learn of changes and agree on limits
	$(GO) run ./scripts/bench/sync
bench-webhook: build ## deliveries a second, with healthy and hanging endpoints
	$(GO) run ./scripts/bench/webhook
bench-release: build build/modules-bad/trap.wasm ## how soon releases serve, and bad ones are gone
	$(GO) run ./scripts/bench/release
bench-hotset: ## memory, files and stalls of a node that is given five million keys
	$(GO) run ./scripts/bench/hotset
bench-abuse: build ## what one that misuses the service does to everybody else
	$(GO) run ./scripts/bench/abuse
bench-scale: ## what grows with nodes, keys, endpoints and changes, at the sizes one installation is to hold
	$(GO) run ./scripts/bench/scale

torture: modules ## random faults for ten minutes, and what was promised after each round (ARGS='-torture 1m -torture-seed 7')
	$(PRECOMPILE) build/modules build/modules/.cache
	$(WITH_RACE) $(GO) test $(RACE) -count=1 -v -timeout 30m -run '^TestTorture$$' ./edge/command -args -torture 10m $(ARGS)

sim-regions: ## what the rate limit of many nodes and keys costs, on a virtual clock
	$(GO) run ./scripts/bench/regions

.PHONY: clean
clean: ## remove what was built
	rm -rf build
