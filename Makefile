STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.7.0

.PHONY: help test check race
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

test: ## all tests that need nothing but Go
	go test ./...

check: ## formatting, vet, staticcheck, race tests of the concurrent packages
	@test -z "$$(gofmt -l . | tee /dev/stderr)"
	go vet ./...
	go run $(STATICCHECK) ./...
	$(MAKE) race

race: ## race tests of the concurrent packages
	go test -race ./pipeline/... ./sealer/...
