# make test is what CI runs, with make test-torch. What it needs beside Go's modules is built or installed once:
# `make tools` (servers that stand in for stores, linters, generators) and `make python` (.venv).

TOOLS := $(CURDIR)/.cache/tools
export PATH := $(TOOLS)/bin:$(PATH)
export PENSTOCK_MINIO ?= $(TOOLS)/bin/minio
# Only the race detector needs cgo. Each other way of building compiles all dependencies once more.
export CGO_ENABLED := 0
export GOFLAGS := $(shell go env GOFLAGS) -trimpath
PACKAGE := client/python
PEERS := $(CURDIR)/.cache/peers

MINIO         := github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
FAKE_GCS      := github.com/fsouza/fake-gcs-server@v1.56.1
AZURITE       := azurite@3.35.0
VERSITYGW     := github.com/versity/versitygw/cmd/versitygw@v1.8.0
GOFUMPT       := mvdan.cc/gofumpt@v0.12.0
GOLANGCI      := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
PROTOC_GO     := google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
PROTOC_GRPC   := google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
MERMAID       := https://registry.npmjs.org/mermaid/-/mermaid-12.3.0.tgz
MERMAID_SHA256 := 336df803d87a38b70a01e736e666c8f7601d2ce42f5e47c8fafe5d721074b9a3
GOTESTSUM     := gotest.tools/gotestsum@v1.13.0

CLOUDPICKLE   := cloudpickle==3.1.3
PYTEST        := $(CLOUDPICKLE) pytest==9.2.0 pytest-rerunfailures==16.7 pytest-timeout==2.4.0 pytest-xdist==3.8.0 tqdm==4.70.1
PYTHON_NEWEST := pyarrow==26.0.1 numpy==2.4.6
PYTHON_OLDEST := pyarrow==19.0.0 numpy==1.26.0 # what pyproject.toml allows
CACHE_CLIENTS := aiohttp==3.14.5 fsspec==2026.9.0 pfio==2.10.0 # what internal/cache/bucket is tested with
PYTHON_TOOLS  := duckdb==2.0.0 hatchling==1.33.0 mypy==2.4.1 pillow==13.0.0 ruff==0.17.6 $(CACHE_CLIENTS)

.PHONY: build image image-python test test-kubernetes test-go test-python test-pythons test-torch test-v3 test-stores lint lint-python bench bench-guard bench-peers chaos soak fuzz generate docs docs-serve test-docs proto \
	proto-check tools python wheel clean

build:            ## the binary
	go build -o penstock .

image:            ## dist/penstock.tar, a container image made without an engine; for docker load, podman load, ctr images import
	GOOS=linux go build -ldflags '-s -w' -o .cache/image/penstock .
	go run ./deploy/image --tag penstock:dev --output dist/penstock.tar /usr/bin/penstock=.cache/image/penstock

PYTHON_IMAGE = .cache/image/python-root

image-python: python ## dist/penstock-python.tar, the same with Python for functions of users', and no packages but what the package needs
	GOOS=linux go build -ldflags '-s -w' -o .cache/image/penstock .
	PYTHON=.venv/bin/python deploy/image/python.sh $(PYTHON_IMAGE) $(PYTHON_NEWEST) $(CLOUDPICKLE)
	go run ./deploy/image --tag penstock-python:dev --output dist/penstock-python.tar --entrypoint /usr/bin/penstock \
		/=$(PYTHON_IMAGE) /usr/bin/penstock=.cache/image/penstock

test: test-go test-python ## all tests that need no torch

PACKAGES  = $(shell go list ./...)
# Where no goroutines of the product meet the race detector finds nothing; bench runs the product as processes, which do not have it.
RACELESS  = $(shell go list ./api/... ./bench/... ./cmd/convert ./cmd/demo/... ./master/autoscale)
# The model checker has nothing but random jobs: make soak runs many more of them.
MODEL     = $(shell go list ./master/session)
# The inner loops start no goroutines: checkptr watches what they do to pointers.
LOOPS     = $(shell go list ./worker/formats/... ./worker/filter ./worker/images/... ./worker/transform/...)
# Tests with real processes: one that fails is run once more by itself, and named if it then passes.
PROCESSES = $(shell go list ./bench/chaos ./bench/cluster ./bench/scale ./client/conformance ./internal/storage/gs ./internal/storage/s3 ./master ./master/store/...)

test-go: tools python ## the product, with the race detector where there are goroutines
	@export PATH="$(CURDIR)/.venv/bin:$$PATH"; \
	CGO_ENABLED=1 go test -race -timeout 20m $(filter-out $(RACELESS) $(LOOPS) $(MODEL) $(PROCESSES),$(PACKAGES)) && \
	CGO_ENABLED=1 .ci/flaky -race -timeout 20m -- $(filter-out $(RACELESS),$(PROCESSES)) && \
	.ci/flaky -parallel 5 -timeout 20m -- $(filter $(RACELESS),$(PROCESSES)) && \
	go test -timeout 20m $(filter-out $(PROCESSES),$(RACELESS)) && \
	go test -timeout 20m $(MODEL) -rapid.checks=25 && \
	go test -timeout 20m -gcflags=-d=checkptr $(LOOPS)

test-stores: $(TOOLS)/bin/minio $(TOOLS)/bin/azurite-blob $(TOOLS)/bin/versitygw ## the stores that more servers stand in for
	PENSTOCK_AZURITE=$(TOOLS)/bin/azurite-blob PENSTOCK_VERSITYGW=$(TOOLS)/bin/versitygw \
		go test -count=1 ./internal/storage/az ./internal/storage/s3

PYTEST_RUN = cd $(PACKAGE) && PENSTOCK_BINARY=$(CURDIR)/penstock

test-python: build tools python $(PEERS) ## the Python package's tests that need no torch, and those of bench/peers
	$(PYTEST_RUN) ../../.venv/bin/python -m pytest -n 3 --dist loadgroup --ignore=tests/torch --durations=10
	cd bench/peers && PENSTOCK_BINARY=$(CURDIR)/penstock PEERS_BINARY=$(PEERS) ../../.venv/bin/python -m pytest

test-torch: build .venv-torch/ready ## those that need it, on CPUs
	$(PYTEST_RUN) PATH="$(CURDIR)/.venv-torch/bin:$$PATH" ../../.venv-torch/bin/python -m pytest -n 2 --dist loadgroup --timeout 400 tests/torch --ignore=tests/torch/test_docs.py --durations=10

test-pythons: build ## a part of them under each other Python that is here, the oldest with the oldest dependencies
	@for v in 3.10 3.12 3.13; do \
		python=; for p in python$$v $$HOME/.pyenv/versions/$$v.*/bin/python; do \
			"$$p" -c '' 2>/dev/null && python=$$p; done; \
		test -n "$$python" || { echo "=== Python $$v: NOT TESTED, it is not installed here"; continue; }; \
		case $$v in 3.10) packages="$(PYTHON_OLDEST)";; *) packages="$(PYTHON_NEWEST)";; esac; \
		echo "=== Python $$v with $$packages"; venv=$(CURDIR)/.venv-$$v; \
		"$$python" -m venv $$venv && $$venv/bin/pip install --quiet $(PYTEST) $$packages && \
		(cd $(PACKAGE) && PENSTOCK_BINARY=$(CURDIR)/penstock $$venv/bin/python -m pytest -n 3 --dist loadgroup --ignore=tests/torch \
			-m "every_python or not fleet and not slow and not tools") || exit 1; \
	done

test-kubernetes: $(TOOLS)/bin/minio ## what deploy/kubernetes ships, on a real cluster of this machine's; as root on Linux
	PENSTOCK_KUBERNETES=1 go test ./master/autoscale/kubernetes
	PENSTOCK_PYTHON_PACKAGES="$(PYTHON_NEWEST) $(CLOUDPICKLE)" bench/kubernetes/test.sh

test-v3: python   ## outputs are the same bits on CPUs with AVX2, where Go could fuse multiply and add
	PATH="$(CURDIR)/.venv/bin:$$PATH" GOAMD64=v3 go test ./worker/filter ./worker/images/... ./worker/tensor ./worker/transform/... ./worker/vector
	PENSTOCK_CPU_LEVELS=1 go test -v -run TestSameSequenceOnEachCPU ./bench/cluster

lint: tools proto-check lint-python ## formatting, linters, types, generated code
	@files=$$(gofumpt -l .); test -z "$$files" || { echo "run gofumpt -w on: $$files"; exit 1; }
	golangci-lint run ./...
	@! git grep -nE '^(<<<<<<<|>>>>>>>) ' || { echo 'a merge left these conflicts'; exit 1; }

lint-python: python
	cd $(PACKAGE) && ../../.venv/bin/ruff format --check . && ../../.venv/bin/ruff check . && ../../.venv/bin/mypy
	cd bench/peers && ../../.venv/bin/ruff format --check . && ../../.venv/bin/ruff check . && ../../.venv/bin/mypy

bench: python     ## benchmarks: the inner loops; what the Python package's monitoring costs
	go test -run '^$$' -bench . -benchmem ./...
	cd $(PACKAGE) && PYTHONPATH=. OPENBLAS_NUM_THREADS=1 ../../.venv/bin/python tests/bench_monitor.py

bench-guard:      ## instructions and allocations of the inner loops are not above the committed baseline
	go run ./bench/guard

bench-peers: build $(PEERS) .venv-peers/ready ## Penstock beside DataLoader, Ray Data and tf.data service; ARGS="--help" tells what can be chosen
	PYTHONPATH=bench/peers .venv-peers/bin/python -m peers --peers $(PEERS) $(ARGS)

.PHONY: $(PEERS)
$(PEERS):
	go build -o $@ ./bench/peers

chaos: tools python ## some eighty faults on fleets of real processes, and a recount
	go run ./bench/chaos --faults 25 --seed 1 --full
	go run ./bench/chaos --faults 12 --seed 2 --loopback --named --last-batch pad
	go run ./bench/chaos --faults 15 --seed 16 --order deterministic --mixed --functions
	go run ./bench/chaos --faults 15 --seed 20 --without-states
	go run ./bench/chaos --faults 7 --seed 35 --rows 21000 --format tar
	go run ./bench/chaos --faults 6 --seed 36 --rows 21000 --format jsonl --order deterministic

soak:             ## the gate with all its parts, whatever they passed for; long randomised runs, and a long demo
	.ci/run --all
	PENSTOCK_SOAK=1 go test -timeout 4h -run "^TestExplore$$" ./master/session
	go test -timeout 4h ./master/session -rapid.checks=5000
	CGO_ENABLED=1 go test -race -timeout 4h ./worker/pipeline ./worker/filter ./worker/formats/parquet -rapid.checks=5000
	go run . demo --rows 20000000 --workers 5 --trainers 4 --kill 10

fuzz:             ## a minute of each fuzz test
	@for p in $$(go list ./...); do for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz'); do \
		echo "$$p $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime 60s -fuzzminimizetime 1x $$p || exit 1; done; done

generate:         ## what declarations say, in what people read: ops, commands, Go's names; a test says if that is due
	go run ./cmd/generate

docs: .venv-docs/ready docs/assets/mermaid.min.js ## docs/.site, the documentation's pages; a link or anchor that leads nowhere is an error
	cd docs && ../.venv-docs/bin/zensical build --clean --strict

test-docs: build .venv-torch/ready ## the programs on pages that need torch; make test-python runs the others
	$(PYTEST_RUN) PATH="$(CURDIR)/.venv-torch/bin:$$PATH" ../../.venv-torch/bin/python -m pytest --timeout 400 tests/torch/test_docs.py --durations=5

docs-serve: .venv-docs/ready docs/assets/mermaid.min.js ## the same at http://localhost:8000, made anew when a page changes
	cd docs && ../.venv-docs/bin/zensical serve

.venv-docs/ready: docs/requirements.txt
	python3 -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --disable-pip-version-check -r docs/requirements.txt
	touch $@

docs/assets/mermaid.min.js: # it draws the diagrams; without it pages would fetch it from elsewhere
	mkdir -p $(@D)
	curl --fail --silent --show-error --location --retry 3 $(MERMAID) | tar -xzO package/dist/mermaid.min.js > $@.part
	echo "$(MERMAID_SHA256)  $@.part" | sha256sum --check --quiet
	mv $@.part $@

proto: tools      ## regenerate api/pb
	protoc --go_out=. --go_opt=module=github.com/penstock-ml/penstock \
		--go-grpc_out=. --go-grpc_opt=module=github.com/penstock-ml/penstock api/pb/*.proto

proto-check: proto ## the committed generated code is up to date
	git diff --exit-code -- api/pb

tools: $(TOOLS)/bin/minio $(TOOLS)/bin/fake-gcs-server $(TOOLS)/bin/gofumpt $(TOOLS)/bin/gotestsum $(TOOLS)/bin/golangci-lint $(TOOLS)/bin/protoc-gen-go $(TOOLS)/bin/protoc-gen-go-grpc

$(TOOLS)/bin/minio:
	GOBIN=$(TOOLS)/bin go install $(MINIO)
$(TOOLS)/bin/fake-gcs-server:
	GOBIN=$(TOOLS)/bin go install $(FAKE_GCS)
$(TOOLS)/bin/versitygw:
	GOBIN=$(TOOLS)/bin go install $(VERSITYGW)
$(TOOLS)/bin/azurite-blob:
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix $(TOOLS)/azurite $(AZURITE)
	ln -sfn ../azurite/node_modules/.bin/azurite-blob $@
$(TOOLS)/bin/gofumpt:
	GOBIN=$(TOOLS)/bin go install $(GOFUMPT)
$(TOOLS)/bin/gotestsum:
	GOBIN=$(TOOLS)/bin go install $(GOTESTSUM)
$(TOOLS)/bin/golangci-lint:
	GOBIN=$(TOOLS)/bin go install $(GOLANGCI)
$(TOOLS)/bin/protoc-gen-go:
	GOBIN=$(TOOLS)/bin go install $(PROTOC_GO)
$(TOOLS)/bin/protoc-gen-go-grpc:
	GOBIN=$(TOOLS)/bin go install $(PROTOC_GRPC)

python: .venv/ready ## Python for the tests, with the package's sources, its tools, and duckdb and Pillow, whose files the tests read
.venv/ready: Makefile
	python3 -m venv .venv
	.venv/bin/pip install --quiet $(PYTHON_NEWEST) $(PYTEST) $(PYTHON_TOOLS)
	echo $(CURDIR)/$(PACKAGE)/src > $$(.venv/bin/python -c 'import site; print(site.getsitepackages()[0])')/penstock.pth
	touch $@

# Without torch's dependencies and with stand-ins for CUDA: a download of 0.6 GB and 2 GB on disk instead of 3.5 and 8.
.venv-torch/ready: $(PACKAGE)/tests/torch/requirements.txt $(PACKAGE)/tests/torch/without_cuda.py
	python3 -m venv .venv-torch
	.venv-torch/bin/pip install --quiet --no-deps -r $<
	site=$$(.venv-torch/bin/python -c 'import site; print(site.getsitepackages()[0])') && \
		.venv-torch/bin/python $(PACKAGE)/tests/torch/without_cuda.py $$site && \
		echo $(CURDIR)/$(PACKAGE)/src > $$site/penstock.pth
	touch $@

.venv-peers/ready: bench/peers/requirements.txt $(PACKAGE)/tests/torch/without_cuda.py
	python3 -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --no-deps -r $<
	.venv-peers/bin/python $(PACKAGE)/tests/torch/without_cuda.py \
		$$(.venv-peers/bin/python -c 'import site; print(site.getsitepackages()[0])')
	touch $@

wheel: python ## dist/*.whl with the binary, for Linux on amd64 and arm64
	rm -rf dist
	cd $(PACKAGE) && for arch in amd64 arm64; do \
		GOOS=linux GOARCH=$$arch ../../.venv/bin/python -m hatchling build --target wheel --directory $(CURDIR)/dist || exit 1; done
	@echo 'pip install dist/penstock-*$$(uname -m).whl   # installs the one for this machine'

clean:
	rm -rf penstock dist .cache .venv .venv-* $(PACKAGE)/src/penstock/_bin
