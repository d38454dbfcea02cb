.DEFAULT_GOAL := help
.PHONY: help build test race prop fuzz bench lint cover cluster conformance ci

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

build: ## build bin/runlog
	go build -o bin/runlog ./cmd/runlog

test: ## run every test
	go test ./...

race: ## run every test under the race detector
	go test -race ./...

prop: ## run the properties for longer than the tests do
	go test ./event ./projection ./fsm ./raftlog ./proptest -rapid.checks=2000 -timeout 60m

fuzz: ## fuzz each decoder for half a minute
	./scripts/fuzz.sh 30s

bench: ## run the Go benchmarks ten times, for benchstat
	go test -run '^$$' -bench . -count 10 ./...

lint: ## vet, staticcheck, gofmt
	go vet ./...
	go tool staticcheck ./...
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }

cover: ## test coverage by package
	go test -cover ./...

cluster: build ## three nodes on this machine, until Ctrl-C
	bin/runlog dev

conformance: ## hold runlog to the published AG-UI and Durable Streams clients (needs Node)
	./conformance/run

ci: ## what guards main
	bash .ci/run
