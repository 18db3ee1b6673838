# Every target is a line of "make help".
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

GO        ?= go
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT    ?= $(shell git rev-parse HEAD 2>/dev/null)
IMAGE     ?= tisnap:$(VERSION)
IMAGE_BR  ?= tisnap-br:$(VERSION)
N         ?= 20
SEED      ?=
# Whether the soaks' backups have marks: auto or off.
MARKS     ?=
# How many regions the soaks have to find unchanged in all.
UNCHANGED ?=
FUZZTIME  ?= 20s
SAMPLE    ?= 0
TIMEOUT   ?= 15m
# Tests of the crash harness that kill or stop the shipped program for minutes: they are in test-rounds.
KILLS     := ^Test(CutOff_FromObjectStorage|Grace_TenSeconds|Killed_AfterTheLastRecord|Rivals_RestoreAndResolve)
# Packages that are tested at the same time: each runs whole clusters, with deadlines of wall-clock time.
P         ?= 2
# The race detector needs a C compiler; without one the tests run, but without it, and say so.
RACE      ?= $(shell command -v "$$($(GO) env CC)" >/dev/null 2>&1 && echo -race)
COMMANDS  := $(patsubst cmd/%/main.go,%,$(wildcard cmd/*/main.go))
LINT      := $(GO) tool -modfile=hack/go.tools.mod golangci-lint
# Without this tag grpc links golang.org/x/net/trace, its html/template calls methods by name, and the linker then
# keeps every method of the EC2 client: 101 MB in place of 47.
TAGS      := grpcnotrace
LDFLAGS   := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the commands into bin/, static and with the version in them
	@mkdir -p bin
	@for c in $(COMMANDS); do \
	  echo "build bin/$$c $(VERSION)"; \
	  CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o bin/$$c ./cmd/$$c; \
	done

.PHONY: demo
demo: build ## back up and restore a whole cluster on the testbed, on this machine
	bin/testbed demo

.PHONY: test
test: ## run the tests of all packages with the race detector, in random order; those of the whole program are in test-rounds
	@[ -n "$(RACE)" ] || echo "note: there is no C compiler, so the race detector is off"
	CGO_ENABLED=0 $(GO) test -trimpath -shuffle=on -timeout=$(TIMEOUT) ./tests/arch ./tests/mutants/...
	$(GO) test $(RACE) -trimpath -shuffle=on -timeout=$(TIMEOUT) -p=$(P) -skip='$(KILLS)' $$($(GO) list ./... | grep -vE '/tests$$|/tests/(arch|failures|mutants|operator)')

.PHONY: test-rounds
test-rounds: ## run the tests of the whole program: its rounds on the testbed, its kills, and those with a replayed TiDB Operator
	$(GO) test $(RACE) -trimpath -shuffle=on -timeout=$(TIMEOUT) -p=$(P) ./tests ./tests/operator ./pkg/testbed/crash

# Without the race detector these tests wait more than they compute: then two packages run at the same time.
.PHONY: test-failures
test-failures: ## run a test for each failure that users have reported, on the testbed
	$(GO) test $(RACE) -trimpath -shuffle=on -timeout=$(TIMEOUT) -p=$(if $(RACE),1,2) -parallel=4 ./tests/failures/...

.PHONY: test-manifests
test-manifests: ## hold the kustomize folders and the Helm chart against Kubernetes' types and against each other
	cd tests/manifests && CGO_ENABLED=0 $(GO) test -trimpath -shuffle=on -timeout=$(TIMEOUT) ./...

.PHONY: e2e
e2e: build ## the demo with a real control plane of Kubernetes; the first run builds it, which takes minutes
	built=$$(GO=$(GO) hack/controlplane/build.sh) && bin/testbed demo --control-plane=$$built

.PHONY: test-kube
test-kube: ## run the tests of Kubernetes on a real control plane; the first run builds it, which takes minutes
	@mkdir -p .tools/kube
	cd tests/manifests && CGO_ENABLED=0 $(GO) run -trimpath ./render >$(CURDIR)/.tools/kube/rendered.json
	built=$$(GO=$(GO) hack/controlplane/build.sh) && \
	  CGO_ENABLED=0 TISNAP_CONTROL_PLANE=$$built TISNAP_RENDERED=$(CURDIR)/.tools/kube/rendered.json \
	  $(GO) test -trimpath -shuffle=on -count=1 -parallel=8 -timeout=$(TIMEOUT) ./tests/kube/...

.PHONY: mutants
mutants: ## break each guard in turn: the tests beside it must fail; SAMPLE=10 runs ten of them
	CGO_ENABLED=0 $(GO) run -trimpath ./tests/mutants/run -sample=$(SAMPLE) -jobs=$(P)

.PHONY: test-emulators
test-emulators: ## run the EC2 and S3 tests on moto, LocalStack and versitygw; the first run installs them
	hack/emulators/run.sh

.PHONY: soak
soak: build ## N random backups and restores, each proven row by row; repeat one with SEED=...
	bin/testbed soak --runs=$(N) $(if $(SEED),--seed=$(SEED)) $(if $(MARKS),--marks=$(MARKS)) $(if $(UNCHANGED),--min-unchanged=$(UNCHANGED))

.PHONY: soak-ebs
soak-ebs: build ## N backups, restores and deletes under lost answers and kills: EC2 holds what is named and nothing else
	bin/testbed soak-ebs --runs=$(N) $(if $(SEED),--seed=$(SEED))

.PHONY: soak-hold
soak-hold: build ## N backups during which something goes wrong at a random call; repeat one with N=1 SEED=...
	bin/testbed soak-hold --runs=$(N) $(if $(SEED),--seed=$(SEED))

.PHONY: soak-resolve
soak-resolve: build ## N restores under faults and kills of their data phase, resumed by resolve, each proven row by row
	bin/testbed soak-resolve --runs=$(N) $(if $(SEED),--seed=$(SEED)) $(if $(MARKS),--marks=$(MARKS)) $(if $(UNCHANGED),--min-unchanged=$(UNCHANGED))

.PHONY: soak-early
soak-early: build ## N backups while raft logs stall, early apply prevented or not: what is ahead is found, what is restored is right
	bin/testbed soak-early --runs=$(N) $(if $(SEED),--seed=$(SEED))

.PHONY: soak-kube
soak-kube: N = 50
soak-kube: build ## N rounds while the API server of Kubernetes fails at random calls; repeat one with N=1 SEED=...
	bin/testbed soak-kube --runs=$(N) $(if $(SEED),--seed=$(SEED))

.PHONY: check-estimate
check-estimate: ## ROUNDS backups and restores on the testbed: the estimate of each run beside what it took
	CGO_ENABLED=0 ESTIMATE_ROUNDS=$(or $(ROUNDS),20) $(GO) test -trimpath -timeout=30m -count=1 -v ./tests -run TestEstimate_RoundsOfTheTestbed

.PHONY: crash
crash: build ## kill every run at every step, run it again, and print the matrix; SAMPLE=8 takes eight cells of each run; AT=suspended and AT=suspended-undo stop and continue it
	bin/testbed crash --sample=$(SAMPLE) $(if $(SEED),--seed=$(SEED)) $(if $(RUNS),--run=$(RUNS)) $(if $(AT),--at="$(AT)") $(if $(ONLY),--only="$(ONLY)")

.PHONY: crash-br
crash-br: ## kill br at every step of a backup and of both halves of a restore, and run the Operator's next Job; make test-failures has a sample
	BR_CRASH=all CGO_ENABLED=0 $(GO) test -trimpath -timeout=60m -p=1 -parallel=4 -run='TestH1_(Backup|Restore)KilledAtEachStep' -v ./tests/failures/br ./tests/failures/operator

.PHONY: chaos
chaos: build ## N rounds of backup and restore with random kills and faults of all systems at once; repeat one with N=1 SEED=...
	bin/testbed chaos --runs=$(N) $(if $(SEED),--seed=$(SEED))

.PHONY: bench
bench: ## run the benchmarks
	$(GO) test -run='^$$' -bench=. -benchmem ./...

.PHONY: bench-storage
bench-storage: ## measure `report --since` and the exporter's first scrape of a storage with 10,000 runs, beside the floor of their requests
	$(GO) test -trimpath -run '^$$' -bench 'Runs_TenThousand|FirstScrape' -benchtime 1x ./pkg/history ./pkg/exporter

.PHONY: bench-resolve
bench-resolve: build ## measure resolving at the size of the largest clusters; JSON in bin/bench-resolve.json
	bin/testbed bench-resolve > bin/bench-resolve.json
	@echo "bin/bench-resolve.json holds the figures; go test -bench 'Plan|Metas' -count 10 ./pkg/resolve/... is for benchstat"

.PHONY: bench-hold
bench-hold: build ## measure how long 20, 100 and 300 stores are held, and what 100 failing runs leave; JSON in bin/bench-hold.json; VIA=direct,port-forward compares both
	bin/testbed bench-hold $(if $(VIA),--via=$(VIA)) > bin/bench-hold.json

.PHONY: bench-marks
bench-marks: build ## measure the marks of 50,000 regions, and the hold with and without them; JSON in bin/bench-marks.json
	bin/testbed bench-marks > bin/bench-marks.json

.PHONY: bench-restore
bench-restore: build ## measure restores of a model of the published case, in some 20 minutes; JSON in bin/bench-restore.json
	bin/testbed bench-restore > bin/bench-restore.json

.PHONY: bench-ebs
bench-ebs: build ## measure cut, restore and deletes against EC2's request limits, 20 to 1,000 stores; JSON in bin/bench-ebs.json
	bin/testbed bench-ebs > bin/bench-ebs.json

.PHONY: test-alerts
test-alerts: ## check the alerts of manifests/monitoring by promtool, with their unit tests; the first run builds it
	hack/promtool/check.sh

.PHONY: test-page
test-page: ## open the exporter's page and the reports in Chromium, which the first run installs; TISNAP_PICTURES=DIR saves what it sees
	hack/page/check.sh

.PHONY: manifests
manifests: ## write manifests/iam-policy.json, from the calls that the adapters make
	$(GO) test ./tests/arch -run TestManifest -update

.PHONY: docs
docs: ## write the tables in docs/ARCHITECTURE.md, docs/metrics.md and docs/br.md, from the code itself
	$(GO) test -p=1 ./tests/arch ./pkg/backup ./pkg/restore ./pkg/metrics ./pkg/brcompat -run 'TestDocs_(Steps|Packages|Metrics|Flags)' -update

.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' pkg | while IFS=: read -r file name; do \
	  echo "fuzz $${name#func } of $$(dirname $$file)"; \
	  $(GO) test -run='^$$' -fuzz="^$${name#func }\$$" -fuzztime=$(FUZZTIME) ./$$(dirname $$file); \
	done

.PHONY: cover
cover: ## test coverage by function, in bin/cover.html too
	@mkdir -p bin
	$(GO) test -coverpkg=./pkg/... -coverprofile=bin/cover.out -timeout=$(TIMEOUT) -p=$(P) ./...
	$(GO) tool cover -html=bin/cover.out -o bin/cover.html
	$(GO) tool cover -func=bin/cover.out | tail -1

.PHONY: lint
lint: ## run the linters; the first run builds them, which takes minutes
	$(LINT) run ./...

.PHONY: fmt
fmt: ## format the sources
	gofmt -s -w cmd pkg tests

.PHONY: fmt-check
fmt-check: ## check that the sources are formatted; changes nothing
	@unformatted="$$(gofmt -s -l cmd pkg tests)"; [ -z "$$unformatted" ] || { echo "not formatted (make fmt): $$unformatted"; exit 1; }

.PHONY: verify
verify: fmt-check ## check format, go vet and that go.mod is tidy; changes nothing
	CGO_ENABLED=0 $(GO) vet -trimpath ./...
	$(GO) mod tidy -diff

.PHONY: sbom
sbom: ## write what is linked into the shipped programs, as CycloneDX: bin/tisnap.cdx.json, bin/br.cdx.json, …
	cd hack/image/sbom && CGO_ENABLED=0 $(GO) run -trimpath . $(CURDIR)/bin/tisnap $(CURDIR)/bin/br

# docker, or buildah where there is none. Both give every file the time of the commit.
EPOCH      = $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
IMAGE_TOOL = $(shell command -v docker >/dev/null && echo docker build || echo buildah bud --timestamp=$(EPOCH))

.PHONY: image
image: ## build the container images: IMAGE of tisnap, and IMAGE_BR for TiDB Operator's toolImage
	$(IMAGE_TOOL) --target tisnap --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --build-arg SOURCE_DATE_EPOCH=$(EPOCH) -t $(IMAGE) .
	$(IMAGE_TOOL) --target br --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --build-arg SOURCE_DATE_EPOCH=$(EPOCH) -t $(IMAGE_BR) .

.PHONY: test-image
test-image: ## build the images twice with buildah, without a network; needs root, buildah and busybox-static
	cd hack/image/sbom && CGO_ENABLED=0 $(GO) test -trimpath ./...
	hack/image/check.sh

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
