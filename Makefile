# Everything here also works by hand: each target is one script or one cargo command.
PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= lib
# How long `make soak` goes on.
SECONDS ?= 7200

.PHONY: help demo test soak fuzz build lib slurm-plugins bench bench-compare lint package install uninstall

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## build, then show what it does on this machine
	@scripts/demo

test: ## all tests, with a summary at the end
	@scripts/test

soak: ## Slurm and PBS under random work and kills for SECONDS, audited: tests/soak
	@scripts/bootstrap test
	@tests/soak/run --seconds $(SECONDS)

fuzz: ## property tests with new seeds; AddressSanitizer; then the borders of trust, by AFL++
	@scripts/bootstrap test
	@scripts/fuzz
	@scripts/asan
	@fuzz/run

build: ## the command line: target/release/libra
	@scripts/bootstrap build
	@scripts/cargo build --release

# ACCOUNTS=no: without accounts, for sites that have none (docs/accounts.md).
FEATURES = $(if $(filter no,$(ACCOUNTS)),--no-default-features)

lib: ## the library alone: target/lib/small/liblibra.so
	@scripts/bootstrap build
	@scripts/lib $(FEATURES)

slurm-plugins: ## for the Slurm whose headers are here: target/slurm/VERSION
	@scripts/bootstrap build
	@scripts/slurm-plugins $(FEATURES)

bench: ## benchmarks
	@scripts/bootstrap build
	@scripts/cargo bench

bench-compare: ## what is dearer than at commit BASE: both are built and run in turns
	@scripts/bootstrap build
	@scripts/bench-compare $(BASE) $(BENCHES)

lint: ## formatting, clippy, shellcheck
	@BOOTSTRAP=build scripts/test fmt clippy shell

package: ## libra, libra-pbs, libra-gridengine, libra-slurm-source and libra-slurm, .deb and .rpm, in target/packages
	@scripts/package

install: ## into DESTDIR/PREFIX (PREFIX=/usr/local)
	@scripts/bootstrap build
	@PREFIX=$(PREFIX) LIBDIR=$(LIBDIR) scripts/stage "$(DESTDIR)/"
	@PREFIX=$(PREFIX) scripts/stage-pbs "$(DESTDIR)/"
	@PREFIX=$(PREFIX) scripts/stage-gridengine "$(DESTDIR)/"

uninstall: ## what install put there, but for the configuration; batch systems first: libra pbs uninstall and its kin
	@PREFIX=$(PREFIX) LIBDIR=$(LIBDIR) scripts/unstage "$(DESTDIR)/"
