# A target with ## is a line of "make help", under the heading that is above it here; one with # is a part of another.
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
SUITE     ?=
TIMEOUT   ?= 15m
# Packages that are tested at the same time: each runs whole clusters, with deadlines of wall-clock time.
P         ?= 2
# The race detector needs a C compiler; without one the tests run, but without it, and say so.
RACE      ?= $(shell command -v "$$($(GO) env CC)" >/dev/null 2>&1 && echo -race)
# How many tests of a package run at the same time: most of them wait for a stand-in, and compute only with the race detector.
PARALLEL  ?= 10
RACING    ?= 4
# These packages and their tests start no goroutine (tests/arch checks it): the race detector would find nothing in them, and
# takes several times their time. The tests of packages that use them run with it.
SERIAL    := pkg/archive/codec pkg/archive/ext4 pkg/archive/format pkg/tikv/tikvtest/mvcc
# The tests of these packages start a cluster each, and the race detector takes five times their time, which is most of that
# of all packages. .ci/run runs them with it, by CLUSTERS= alone. Without it they mostly wait, and three packages are tested at
# the same time.
CLUSTERS  ?= pkg/backup pkg/resolve pkg/restore
COMMANDS  := $(patsubst cmd/%/main.go,%,$(wildcard cmd/*/main.go))
# Without this tag grpc links golang.org/x/net/trace, its html/template calls methods by name, and the linker then
# keeps every method of the EC2 client: 101 MB in place of 47.
TAGS      := grpcnotrace
LDFLAGS   := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# One set of flags for all that is compiled, tools and tests too: what differs is compiled twice. Only the race detector,
# which needs cgo, has a second set.
export GOFLAGS     := -trimpath -buildvcs=false -tags=$(TAGS)
export CGO_ENABLED := 0
LINT      := $(GO) tool -modfile=hack/go.tools.mod golangci-lint
# No vet: a test compiles its package anyway, and "make vet" runs more checks. Vetting all dependencies takes 88 CPU-seconds.
# The heaps of tests are small, and collecting them as often as by default takes a sixth of all time. The race detector
# sleeps for a second at the end of each package, for goroutines that are still running; the tests wait for theirs. No test
# asks AWS, so that certificates for it need not be read at each start of a stand-in.
TEST      := $(GO) test -vet=off -exec='env -u AWS_CA_BUNDLE GOGC=400 GORACE=atexit_sleep_ms=0' -shuffle=on -timeout=$(TIMEOUT) -parallel=$(PARALLEL)
# The checks of unsafe pointers that come with the race detector take an eighth of all time; no code here has any.
RACEFLAGS := $(if $(RACE),-race -gcflags=all=-d=checkptr=0)
RACETEST  := $(if $(RACE),CGO_ENABLED=1 $(TEST) $(RACEFLAGS) -parallel=$(RACING),$(TEST))
# The packages that "make test" tests with the race detector.
RACED      = $$($(GO) list ./... | grep -vE '/tests$$|/tests/(arch|failures|mutants|operator|transcripts)|/testbed/crash$$' | \
	  grep -vE '/($(subst $() $(),|,$(strip $(SERIAL) $(CLUSTERS))))$$')

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ build

.PHONY: build
build: ## build the commands into bin/, static and with the version in them
	@mkdir -p bin
	@for c in $(COMMANDS); do \
	  echo "build bin/$$c $(VERSION)"; \
	  $(GO) build -ldflags '$(LDFLAGS)' -o bin/$$c ./cmd/$$c; \
	done

.PHONY: manifests
manifests: ## write manifests/iam-policy.json, from the calls that the adapters make
	$(GO) test ./tests/arch -run TestManifest -update

.PHONY: docs
docs: ## write the tables in docs/ARCHITECTURE.md, docs/metrics.md and docs/br.md, from the code itself
	$(GO) test -p=1 ./tests/arch ./pkg/backup ./pkg/restore ./pkg/metrics ./pkg/brcompat -run 'TestDocs_(Steps|Packages|Metrics|Flags)' -update

.PHONY: fmt
fmt: ## format the sources
	gofmt -s -w cmd pkg tests manifests

.PHONY: clean
clean: ## remove what was built
	rm -rf bin

##@ test

.PHONY: test
test: ## run the tests of all packages in random order, with the race detector; CLUSTERS= has it on in those of whole clusters, too
	@[ -n "$(RACE)" ] || echo "note: there is no C compiler, so the race detector is off"
	$(TEST) -p=$(if $(strip $(CLUSTERS)),3,$(P)) ./tests/arch ./tests/mutants/... $(SERIAL:%=./%) $(CLUSTERS:%=./%)
	$(RACETEST) -p=$(if $(strip $(CLUSTERS)),3,$(P)) $(RACED)

.PHONY: raced
raced: # compile what "make test" runs with the race detector; .ci/run does while other tests wait
	@$(if $(RACE),CGO_ENABLED=1) $(GO) list $(RACEFLAGS) -export -test -deps $(RACED) >/dev/null

.PHONY: test-rounds
test-rounds: ## run the tests of the whole program: its rounds on the testbed, its kills, and those with a replayed TiDB Operator
	$(RACETEST) -p=$(P) ./tests ./tests/operator ./tests/transcripts ./pkg/testbed/crash

# Without the race detector these tests wait more than they compute: then three packages run at the same time.
.PHONY: test-failures
test-failures: ## run a test for each failure that users have reported, on the testbed
	$(RACETEST) -p=$(if $(RACE),1,3) ./tests/failures/...

.PHONY: test-manifests
test-manifests: ## hold the kustomize folders and the Helm chart against Kubernetes' types and against each other
	cd tests/manifests && $(filter-out -vet=off,$(TEST)) ./... # "make vet" is not of this module

.PHONY: controlplane
controlplane: # a part of test-kube and e2e
	@GO=$(GO) hack/controlplane/build.sh

.PHONY: test-kube
test-kube: ## run the tests of Kubernetes on a real control plane; the first run builds it, which takes minutes
	@mkdir -p .tools/kube
	cd tests/manifests && $(GO) run ./render >$(CURDIR)/.tools/kube/rendered.json
	built=$$(GO=$(GO) hack/controlplane/build.sh) && \
	  TISNAP_TEST_CONTROL_PLANE=$$built TISNAP_TEST_RENDERED=$(CURDIR)/.tools/kube/rendered.json $(TEST) -count=1 ./tests/kube/...

.PHONY: test-emulators
test-emulators: ## run the EC2, EBS direct and S3 tests on moto, LocalStack and versitygw; the first run installs them
	hack/emulators/run.sh

.PHONY: test-alerts
test-alerts: ## check the alerts of manifests/monitoring by promtool, with their unit tests; the first run builds it
	hack/promtool/check.sh

.PHONY: test-archive
test-archive: ## read archives with an independent reader, and compare free blocks of ext4 with e2fsprogs; the first run installs both
	GO=$(GO) hack/archive/reader.sh
	GO=$(GO) hack/archive/ext4.sh

.PHONY: test-page
test-page: ## open the exporter's page and the reports in Chromium, which the first run installs; TISNAP_TEST_PICTURES=DIR saves what it sees
	hack/page/check.sh

.PHONY: verify
verify: fmt-check vet ## check format, go vet and that go.mod is tidy; changes nothing
	$(GO) mod tidy -diff

.PHONY: fmt-check
fmt-check: # a part of verify
	@unformatted="$$(gofmt -s -l cmd pkg tests manifests)"; [ -z "$$unformatted" ] || { echo "not formatted (make fmt): $$unformatted"; exit 1; }

.PHONY: vet
vet: # a part of verify
	$(GO) vet ./...

.PHONY: lint
lint: ## run the linters; the first run builds them, which takes minutes
	$(LINT) run ./...

.PHONY: cover
cover: ## test coverage by function, in bin/cover.html too
	@mkdir -p bin
	$(GO) test -coverpkg=./pkg/... -coverprofile=bin/cover.out -timeout=$(TIMEOUT) -p=$(P) ./...
	$(GO) tool cover -html=bin/cover.out -o bin/cover.html
	$(GO) tool cover -func=bin/cover.out | tail -1

.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' pkg | while IFS=: read -r file name; do \
	  echo "fuzz $${name#func } of $$(dirname $$file)"; \
	  $(GO) test -run='^$$' -fuzz="^$${name#func }\$$" -fuzztime=$(FUZZTIME) ./$$(dirname $$file); \
	done

##@ prove

.PHONY: demo
demo: build ## back up and restore a whole cluster on the testbed, on this machine; OPERATOR=2 is of TiDB Operator 2.x
	bin/testbed demo $(if $(OPERATOR),--operator=$(OPERATOR))

.PHONY: e2e
e2e: build ## the demo with a real control plane of Kubernetes; the first run builds it, which takes minutes
	built=$$(GO=$(GO) hack/controlplane/build.sh) && bin/testbed demo --control-plane=$$built

# cluster: random backups and restores, each proven row by row. resolve: faults and kills of a restore's data phase, resumed.
# hold: something goes wrong at a random call of a backup. ebs: lost answers and kills; EC2 holds what is named and nothing else.
# kube: the API server fails at random calls. early: raft logs stall; what is ahead is found, what is restored is right.
# archive: three writers of two clusters and two prunes are killed and suspended at random instants; no archive loses a block.
# kills: archives are killed at random instants, 10 of each seed; the same command finishes each, and reads little twice.
# copy: pushes and pulls under faults, deleted sources and kills; the copy is complete or none, no account has a snapshot left.
SOAK_cluster := soak
SOAK_resolve := soak-resolve
SOAK_hold    := soak-hold
SOAK_ebs     := soak-ebs
SOAK_kube    := soak-kube
SOAK_early   := soak-early
SOAK_archive := soak-archive
SOAK_kills   := soak-kills
SOAK_copy    := soak-copy
.PHONY: soak
soak: build ## N random runs of SUITE=cluster (the default), resolve, hold, ebs, kube (OPERATOR=2), early, archive, kills or copy; repeat one with N=1 SEED=...
	bin/testbed $(or $(SOAK_$(or $(SUITE),cluster)),$(error no SUITE=$(SUITE))) --runs=$(N) $(if $(SEED),--seed=$(SEED)) \
	  $(if $(MARKS),--marks=$(MARKS)) $(if $(UNCHANGED),--min-unchanged=$(UNCHANGED)) $(if $(OPERATOR),--operator=$(OPERATOR))

.PHONY: crash
crash: build ## kill every run at every step, run it again, and print the matrix; SAMPLE=8, AT=suspended[-undo], THEN=gc; SUITE=br kills br
ifeq ($(SUITE),br)
	BR_CRASH=all $(GO) test -timeout=60m -p=1 -parallel=4 -run='Test(Backup|Restore)KilledAtEachStep' -v ./tests/failures/br ./tests/failures/operator
else
	bin/testbed crash --sample=$(SAMPLE) $(if $(SEED),--seed=$(SEED)) $(if $(RUNS),--run=$(RUNS)) $(if $(AT),--at="$(AT)") $(if $(THEN),--then=$(THEN)) $(if $(ONLY),--only="$(ONLY)")
endif

.PHONY: chaos
chaos: build ## N rounds of backup and restore with random kills and faults of all systems at once; repeat one with N=1 SEED=...
	bin/testbed chaos --runs=$(N) $(if $(SEED),--seed=$(SEED)) $(if $(OPERATOR),--operator=$(OPERATOR))

.PHONY: mutants
mutants: ## break each guard in turn: the tests beside it must fail; SAMPLE=10 runs ten, those of the files that changed first
	$(GO) run ./tests/mutants/run -sample=$(SAMPLE) -jobs=$(P)

.PHONY: nightly
nightly: ## what is long and rarely fails, before a release: emulators, crash, chaos, alerts, estimates, more seeds
	.ci/nightly

##@ measure

# What each measures is in docs/measurements.md. estimate: ROUNDS backups and restores, the estimate of each beside what it took.
BENCH_go       = $(GO) test -run='^$$' -bench=. -benchmem ./...
BENCH_storage  = $(GO) test -run='^$$' -bench='Runs_TenThousand|FirstScrape' -benchtime=1x ./pkg/history ./pkg/exporter
BENCH_estimate = ESTIMATE_ROUNDS=$(or $(ROUNDS),20) $(GO) test -timeout=30m -count=1 -v ./tests -run=TestEstimate_RoundsOfTheTestbed
BENCH_hold     = bin/testbed bench-hold $(if $(VIA),--via=$(VIA)) >bin/bench-hold.json
BENCH_marks    = bin/testbed bench-marks >bin/bench-marks.json
BENCH_resolve  = bin/testbed bench-resolve >bin/bench-resolve.json
BENCH_restore  = bin/testbed bench-restore >bin/bench-restore.json
BENCH_ebs      = bin/testbed bench-ebs >bin/bench-ebs.json
BENCH_blocks   = bin/testbed bench-blocks >bin/bench-blocks.json
BENCH_prune    = TISNAP_BENCH_PACKS=$(or $(PACKS),1000000) GOMEMLIMIT=200MiB $(GO) test -run='^$$' -bench=Fleet -benchtime=1x -timeout=60m ./pkg/archive/prune
BENCH_archive  = hack/archive/peers.sh && bin/testbed bench-archive $(if $(ROUNDS),--rounds=$(ROUNDS)) $(if $(ONLY),--only="$(ONLY)") >bin/bench-archive.json
BENCH_large    = bin/testbed bench-large $(if $(BLOCKS),--blocks=$(BLOCKS)) >bin/bench-large.json
BENCH_far      = bin/testbed bench-far >bin/bench-far.json
BENCH_shared   = bin/testbed bench-shared >bin/bench-shared.json
BENCH_filled   = bin/testbed bench-filled >bin/bench-filled.json

.PHONY: bench
bench: $(if $(filter-out go storage estimate prune,$(SUITE)),build) ## measure SUITE=go (the default), storage, estimate, hold, marks, resolve, restore, ebs, blocks, prune, archive, large, far, shared or filled
	$(or $(BENCH_$(or $(SUITE),go)),$(error no SUITE=$(SUITE)))

##@ ship

.PHONY: man
man: # write the man pages into bin/man
	SOURCE_DATE_EPOCH=$(EPOCH) $(GO) run ./hack/man bin/man

.PHONY: completions
completions: # write the shells' completions into bin/completions
	@mkdir -p bin/completions
	for shell in bash zsh fish; do $(GO) run ./cmd/tisnap completion $$shell >bin/completions/tisnap.$$shell; done

.PHONY: test-release
test-release: ## check .goreleaser.yaml and build a release by it, without publishing; the first run builds goreleaser
	hack/release/check.sh

.PHONY: sbom
sbom: # write what is linked into the shipped programs, as CycloneDX: bin/tisnap.cdx.json, bin/br.cdx.json, …
	cd hack/image/sbom && $(GO) run . $(CURDIR)/bin/tisnap $(CURDIR)/bin/br

# docker, or buildah where there is none. Both give every file the time of the commit.
EPOCH      = $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
IMAGE_TOOL = $(shell command -v docker >/dev/null && echo docker build || echo buildah bud --timestamp=$(EPOCH))

.PHONY: image
image: ## build the container images: IMAGE of tisnap, and IMAGE_BR for TiDB Operator's toolImage
	$(IMAGE_TOOL) --target tisnap --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --build-arg SOURCE_DATE_EPOCH=$(EPOCH) -t $(IMAGE) .
	$(IMAGE_TOOL) --target br --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --build-arg SOURCE_DATE_EPOCH=$(EPOCH) -t $(IMAGE_BR) .

.PHONY: test-image
test-image: ## build the images twice with buildah, without a network; needs root, buildah and busybox-static
	cd hack/image/sbom && $(GO) test ./...
	hack/image/check.sh
