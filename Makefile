.DEFAULT_GOAL := help
.PHONY: help run test race ci quick bench generate image clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12
run: ## serve on the embedded engine
	go run .
test: ## the tests, but for those of bench and deploy
	go test ./...
race: ## the same with the race detector, shuffled
	go test -race -short -shuffle=on ./...
quick: ## checks of the source, and all tests, those of bench and deploy too
	.ci/run quick
ci: ## everything that must pass before a change lands
	.ci/run
bench: ## every benchmark once
	go test -short -run '^$$' -bench . -benchtime 1x ./...
generate: ## generate code after a change of schema.graphqls
	go generate ./...
image: ## the container image, into dist
	go -C deploy/image run .
clean: ## remove what builds have written
	rm -rf dist
