# The two commands are `make run` and `make test`. Both do the necessary set-up.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help run test build install package tarball bench format lint clean setup-build setup-run setup-bench setup-test setup-portable setup-package

# One folder has everything outside the checkout, unless the user has already chosen other places.
ifeq ($(HOME),)
export HOME := $(shell getent passwd "$$(id -u)" | cut -d: -f6)
endif
CACHE := $(HOME)/.cache/billow
# Tests run in other folders, so the path is absolute. $(abspath) would split it at blanks.
export BILLOW_TEST_MODELS := $(or $(BILLOW_TEST_MODELS),$(CACHE)/models)
ifeq ($(filter /%,$(firstword $(BILLOW_TEST_MODELS))),)
export BILLOW_TEST_MODELS := $(CURDIR)/$(BILLOW_TEST_MODELS)
endif
export CCACHE_DIR ?= $(CACHE)/ccache
export CCACHE_MAXSIZE ?= 2G
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
ifeq ($(CARGO_HOME)$(wildcard $(HOME)/.cargo),)
export CARGO_HOME := $(CACHE)/cargo
endif

BILLOW := build/release/bin/billow
MODEL := $(BILLOW_TEST_MODELS)/smollm2-135m-q4_1.gguf

help:
	@echo 'make run      set up, build, start a server with a small model and chat (without a terminal: one question)'
	@echo 'make test     set up, build all presets and run all tests'
	@echo 'make build    set up and build $(BILLOW)'
	@echo 'make install  install the program and its service; prefix=/usr/local, DESTDIR=FOLDER, service=no'
	@echo 'make package  make a Debian package in build/release/package'
	@echo 'make tarball  make a portable tarball in build/release/package, for glibc 2.28 or newer'
	@echo 'make bench    compare speed with llama.cpp and OpenVINO if they are installed; BENCH_ARGS=--quick or --help'
	@echo 'make format   format all source files'
	@echo 'make lint     format, layers, style, prose, headers, clang-tidy'
	@echo 'make clean    remove the build folder'

setup-build setup-run setup-bench setup-test setup-portable setup-package: setup-%:
	@tools/setup $(if $(filter test,$*),all,$*)

# After the build folder is configured, Ninja handles all changes.
define build-program
@[ -e build/release/build.ninja ] || cmake --preset release
@ninja -C build/release billow billow_packaging
endef

build: setup-build
	$(build-program)

run: setup-run
	$(build-program)
	@tools/demo $(BILLOW) "$(MODEL)" "$(CACHE)/demo-store"

# The time of all files in packages: the commit's.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
BUILD ?= build/release
prefix ?= /usr/local
service ?= yes

# Builds the program only if it is missing: `sudo make install` must not build as root.
install:
	@[ -e $(BUILD)/bin/billow ] && [ -e $(BUILD)/packaging/compressed.stamp ] || $(MAKE) build
	@cmake --install $(BUILD) --prefix "$(prefix)" --strip --component program
	@[ "$(service)" = no ] || cmake --install $(BUILD) --prefix "$(prefix)" --component service
	@rm -f $(BUILD)/install_manifest*.txt # root's, after `sudo make install`: the next installation could not write it

package: setup-package
	$(build-program)
	@cd $(BUILD) && cpack -G DEB

tarball: build setup-portable
	@packaging/portable/tarball $(BUILD) $(BUILD)/package

# Configures each time, because an older build folder may not have the benchmarks.
bench: setup-bench
	@cmake --preset release >/dev/null
	@ninja -C build/release billow billow_micro
	@bench/compare $(BENCH_ARGS)
	@bench/embeddings $(filter --quick,$(BENCH_ARGS))

test: setup-test
	@tools/test

format: setup-test
	@tools/lint format-in-place

lint: setup-test
	@tools/lint all

clean:
	rm -rf build
