# make test is what CI runs. Everything it needs is fetched by Go, but for the parts that `make tools` builds once
# (a MinIO server, linters) and Python with pyarrow and duckdb, whose files the tests read.

TOOLS := $(CURDIR)/.cache/tools
export PATH := $(TOOLS)/bin:$(PATH)
export PENSTOCK_MINIO ?= $(TOOLS)/bin/minio

MINIO         := github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
GOFUMPT       := mvdan.cc/gofumpt@v0.12.0
GOLANGCI      := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
PROTOC_GO     := google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
PROTOC_GRPC   := google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2

.PHONY: build test test-v3 lint bench soak fuzz proto proto-check tools python clean

build:            ## the binary
	CGO_ENABLED=0 go build -trimpath -o penstock .

test: tools python ## all tests, with the race detector
	PATH="$(CURDIR)/.venv/bin:$$PATH" go test -race -timeout 20m ./...

test-v3:          ## outputs are the same bits on CPUs with AVX2, where Go could fuse multiply and add
	GOAMD64=v3 go test ./worker/...

lint: tools proto-check ## formatting, linters, generated code
	@files=$$(gofumpt -l .); test -z "$$files" || { echo "run gofumpt -w on: $$files"; exit 1; }
	golangci-lint run ./...

bench:            ## benchmarks of the inner loops
	go test -run '^$$' -bench . -benchmem ./...

soak:             ## long randomised runs, and a long demo
	go test -race -timeout 4h ./master/session ./worker/pipeline ./worker/filter ./worker/columns -rapid.checks=5000
	go run . demo --rows 20000000 --workers 5 --trainers 4 --kill 10

fuzz:             ## a minute of each fuzz test
	@for p in $$(go list ./...); do for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz'); do \
		echo "$$p $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime 60s -fuzzminimizetime 1x $$p || exit 1; done; done

proto: tools      ## regenerate api/pb
	protoc --go_out=. --go_opt=module=github.com/penstock-ml/penstock \
		--go-grpc_out=. --go-grpc_opt=module=github.com/penstock-ml/penstock api/pb/*.proto

proto-check: proto ## the committed generated code is up to date
	git diff --exit-code -- api/pb

tools: $(TOOLS)/bin/minio $(TOOLS)/bin/gofumpt $(TOOLS)/bin/golangci-lint $(TOOLS)/bin/protoc-gen-go $(TOOLS)/bin/protoc-gen-go-grpc

$(TOOLS)/bin/minio:
	CGO_ENABLED=0 GOBIN=$(TOOLS)/bin go install $(MINIO)
$(TOOLS)/bin/gofumpt:
	GOBIN=$(TOOLS)/bin go install $(GOFUMPT)
$(TOOLS)/bin/golangci-lint:
	GOBIN=$(TOOLS)/bin go install $(GOLANGCI)
$(TOOLS)/bin/protoc-gen-go:
	GOBIN=$(TOOLS)/bin go install $(PROTOC_GO)
$(TOOLS)/bin/protoc-gen-go-grpc:
	GOBIN=$(TOOLS)/bin go install $(PROTOC_GRPC)

python: .venv/ready ## pyarrow and duckdb, which write files for the tests
.venv/ready:
	python3 -m venv .venv
	.venv/bin/pip install --quiet pyarrow==26.0.1 duckdb==2.0.0 numpy==2.4.6
	touch $@

clean:
	rm -rf penstock .cache .venv
