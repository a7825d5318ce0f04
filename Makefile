.DEFAULT_GOAL := help
.PHONY: help run test race ci quick bench generate image clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12
run: ## serve on the embedded engine
	go run .
test: ## the tests of all modules: the gateway, the engine, bench and deploy
	go test ./...
	for module in $$(cat .ci/modules); do go -C $$module test ./... || exit 1; done
race: ## the tests of the gateway with the race detector, shuffled
	go test -race -short -shuffle=on ./...
quick: ## checks of the source, and all tests
	.ci/run quick
ci: ## everything that must pass before a change lands
	.ci/run
bench: ## every benchmark of the gateway once
	go test -short -run '^$$' -bench . -benchtime 1x ./...
generate: ## generate code after a change of schema.graphqls
	go generate ./...
image: ## the container image, into dist
	go -C deploy/image run .
clean: ## remove what builds have written
	rm -rf dist
