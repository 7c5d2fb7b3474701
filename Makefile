# SPDX-License-Identifier: Apache-2.0
# Short names for what one does often. Everything else is plain CMake: cmake --preset release && cmake --build --preset release

PRESET ?= release
PREFIX ?= /usr/local
BUILD := build/$(PRESET)
DATA := tests/data

.PHONY: help lab run test bench bench-peers format lint install packages python browser build
.DEFAULT_GOAL := help

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

packages:
	@scripts/setup packages cudnn

python:
	@scripts/setup python

browser:
	@scripts/setup browser || [ "$$CI" != true ] # without it the tests of the report are skipped, but not in CI

build: packages $(BUILD)/build.ninja
	@cmake --build --preset $(PRESET)

$(BUILD)/build.ninja: CMakePresets.json | packages
	@cmake --preset $(PRESET) --log-level=NOTICE >/dev/null

lab: $(BUILD)/build.ninja ## The lab: attention step by step on this machine, checked and timed; leaves lab-report/report.html
	@cmake --build --preset $(PRESET) --target dhyan_cli
	$(BUILD)/bin/dhyan lab $(LAB)

run: $(BUILD)/build.ninja ## Attention of a real sentence encoder by every implementation: checked, compared, timed
	@cmake --build --preset $(PRESET) --target dhyan_cli
	$(BUILD)/bin/dhyan run --compare --query $(DATA)/minilm.safetensors:query --key $(DATA)/minilm.safetensors:key \
	  --value $(DATA)/minilm.safetensors:value --key-lengths $(DATA)/minilm.safetensors:key_lengths \
	  --expect $(DATA)/minilm.safetensors:out_float64

test: python browser packages ## Run all tests (PRESET=asan or tsan: under sanitizers)
	@cmake --preset $(PRESET) --log-level=NOTICE >/dev/null # the build tree may be older than .venv, and leave its tests out
	@cmake --build --preset $(PRESET)
	@.venv/bin/python scripts/test $(BUILD)

bench: build ## Time the parts of the library and a few whole problems
	$(BUILD)/bin/dhyan_bench

bench-peers: build ## Time PyTorch and JAX beside dhyan (own environment, 5 GB)
	bench/peers/run

format: ## Format the C and C++ sources
	@scripts/setup developer
	scripts/format

lint: ## Check formatting, C++ (clang-tidy), shell scripts and API comments
	@scripts/setup developer
	scripts/lint

install: packages $(BUILD)/build.ninja ## Install to PREFIX (default /usr/local)
	@cmake --build --preset $(PRESET) --target dhyan dhyan_cli
	cmake --install $(BUILD) --prefix $(PREFIX)
