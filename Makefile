# dqbridge. `make help` lists the targets.

GO           ?= go
GOLANGCI     := v2.15.0
GOVULNCHECK  := v1.9.0
NATSCLI      := v0.5.1
TOOLS        := $(CURDIR)/.tools
LINTER       ?= $(TOOLS)/golangci-lint-$(GOLANGCI)/golangci-lint
NATS         := $(TOOLS)/nats-$(NATSCLI)/nats
FUZZTIME     ?= 10s
BENCHTIME    ?= 1s
SOAK         ?= 10m
SOAKRATE     ?= 2500
FROM         ?= HEAD~1
VERSION      := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.DEFAULT_GOAL := help
.PHONY: help build run demo test soak redis curl nats chromium prometheus beanstalkd upgrade lint vuln fuzz bench compare clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# The version is stamped here, so git need not be asked again by the go command (which fails on a tree of another owner).
# grpcnotrace: what sends traces brings gRPC along, and its debug pages would make the linker keep 16 MB that nothing calls.
build: ## build bin/dqbridge, a static binary
	CGO_ENABLED=0 $(GO) build -tags grpcnotrace -buildvcs=false -trimpath -ldflags '-X main.stamp=$(VERSION)' -o bin/dqbridge .

run: build ## start a bridge with NATS and Redis of its own, nothing to install
	bin/dqbridge dev

demo: build ## a round trip through a bridge of its own in a temporary folder
	@dir=$$(mktemp -d) || exit 1; \
	trap 'rm -rf "$$dir"' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; \
	bin/dqbridge dev --exit --nats-addr 127.0.0.1:0 --http-addr 127.0.0.1:0 --dir "$$dir"

# One package after the other (-p 1): many tests have servers and processes of their own, and a small machine has two cores.
test: redis curl nats chromium prometheus ## run the whole suite, with the race detector
	cd internal/manifests && $(GO) test -count=1 ./...
	CGO_ENABLED=1 $(GO) test -race -shuffle=on -timeout 12m -p 1 ./...

# Without the race detector, which would leave half of the rate. -soak.seed N makes the faults of an earlier run again.
soak: redis ## break one thing after the other under load for SOAK, at SOAKRATE jobs a second
	$(GO) test ./internal/whole -run '^TestSoak$$' -v -count=1 -timeout 0 -soak $(SOAK) -soak.rate $(SOAKRATE) $(SOAKFLAGS)

# $(call install,PROGRAM,APT,OTHERS) installs a program that is missing; its package has one name for apt and one for others.
# RUNLEVEL=1 keeps Debian from starting a server it installs: the tests start their own.
define install
	@if command -v $(1) >/dev/null; then exit 0; fi; \
	root=''; if [ "$$(id -u)" != 0 ]; then root='sudo -n'; fi; \
	if command -v apt-get >/dev/null; then \
		$$root apt-get update -qq && \
		$$root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(2); \
	elif command -v apk >/dev/null; then $$root apk add --no-cache $(3); \
	elif command -v dnf >/dev/null; then $$root dnf install -y -q $(3); \
	elif command -v brew >/dev/null; then brew install $(3); \
	fi </dev/null >&2 || true; \
	if ! command -v $(1) >/dev/null; then \
		echo 'No $(1), and it could not be installed. All is run; what needs it will fail and say so.' >&2; \
	fi
endef

redis:
	$(call install,redis-server,redis-server,redis)

curl:
	$(call install,curl,curl,curl)

nats: $(NATS)

$(NATS):
	GOBIN=$(@D) $(GO) install github.com/nats-io/natscli/nats@$(NATSCLI)

chromium:
	$(call install,chromium,chromium,chromium)

# With promtool, for the queries of docs/. TESTS_WITHOUT=prometheus leaves the tests out that need it.
prometheus:
ifeq ($(findstring prometheus,$(TESTS_WITHOUT)),)
	$(call install,promtool,prometheus,prometheus)
endif

# The test is the one of the suite, with the binary of an earlier commit in place of the made-up next version.
upgrade: redis ## upgrade from commit FROM and back under load
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; \
	mkdir "$$dir/from"; git archive '$(FROM)' | tar -x -C "$$dir/from"; \
	(cd "$$dir/from" && CGO_ENABLED=0 $(GO) build -buildvcs=false -ldflags "-X main.stamp=$$(git -C '$(CURDIR)' describe --tags --always '$(FROM)')" -o "$$dir/dqbridge" .); \
	$(GO) test ./internal/whole -count=1 -v -run '^TestRollingUpgrade$$' -old "$$dir/dqbridge"

beanstalkd:
	$(call install,beanstalkd,beanstalkd,beanstalkd)

lint: $(LINTER) ## run golangci-lint as CI does (the first time builds it: some minutes)
	$(LINTER) run --timeout 15m ./...
	cd bench && $(LINTER) run --timeout 15m ./...
	cd internal/manifests && $(LINTER) run --timeout 15m ./...

$(TOOLS)/golangci-lint-$(GOLANGCI)/golangci-lint:
	GOBIN=$(@D) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)

vuln: ## look for known vulnerabilities (needs the Go vulnerability database)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) ./...

fuzz: ## run each fuzz target for FUZZTIME
	@set -e; for pkg in $$($(GO) list ./...); do \
		list=$$($(GO) test -list '^Fuzz' "$$pkg"); \
		for target in $$(echo "$$list" | grep '^Fuzz' || true); do \
			echo "$$target in $$pkg"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg"; \
		done; \
	done

bench: redis ## run each benchmark for BENCHTIME
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

COMPARE = bin/compare -binary bin/dqbridge -nats-server bin/nats-server

compare: build redis beanstalkd ## measure dqbridge beside its peers; ARGS are for bench/, `make compare ARGS=-help` lists them
	$(GO) build -C bench -o ../bin/nats-server github.com/nats-io/nats-server/v2
	$(GO) build -C bench -o ../bin/compare .
	bin/compare $(ARGS)

clean: ## remove what was built, tools included
	rm -rf bin .tools
