# Every target sets up what it needs: on a fresh machine Python 3.11 or newer with pip and venv is enough.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# With the tools of the checks and tests, which the command itself does not need. `$(VENV)/.group-NAME` is installed with
# any other of the dependency groups in pyproject.toml.
DEV_STAMP := $(VENV)/.group-dev
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# With the extension module, where a C compiler and the headers of Python are.
NATIVE_STAMP := $(VENV)/.installed-native
# Three workers keep two cores busy, since many tests wait for processes; `make test WORKERS=8` suits larger machines.
WORKERS := 3

PYTHON := $(shell for p in python3.15 python3.14 python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && break; \
	done 2>/dev/null)

# `make interop-kernel CHECKS='untar* --quick'`: which checks against Linux kernels; see CONTRIBUTING.md.
CHECKS :=

.PHONY: help install demo test test-all check docs bench wheels deb interop interop-kernel

help:
	@echo 'make install   set up $(VENV) with the rpcrdma command and the tools of lab/, and the native module where a C compiler is'
	@echo 'make demo      install, then move a real file tree over RPC-over-RDMA in both directions'
	@echo 'make test      install with the tools of tests, then run those that need neither a process nor a network, and some'
	@echo '               journeys of users: a minute'
	@echo 'make test-all  all tests: hostile peers over sockets, each version and provider, models, worlds, documents'
	@echo 'make check     lint, format, types, layers, words, ledger, generated code'
	@echo 'make docs      the documentation as a site with search, in build/docs; works without network once installed'
	@echo 'make bench     latency, throughput and processor time beside TCP, gRPC, iperf3 and others; writes docs/performance.md and'
	@echo '               docs/measured; a quarter of an hour. With QUICK=1 the table of medians alone, in two minutes, and'
	@echo '               nothing is written; AGAINST=DIRECTORY adds a column of another checkout'
	@echo 'make wheels    source distributions and wheels of rpcrdma, rpcrdma-lab and rpcrdma-native, in build/wheels, tried there'
	@echo 'make deb       the Debian package of the server and the commands, in build/deb, for the Debian of this Python'
	@echo 'make interop   tests against tshark, libnfs, rpcbind, nfs-common, systemd, rpcsvc-proto and Kerberos (Debian packages, installed when run as root)'
	@echo 'make interop-kernel  as root: Linux kernels as client and server, in emulated guests built from Debian packages'
	@echo 'CONTRIBUTING.md has the programs for rarer work: fuzzing, soak, simulated worlds, mutation, a nightly run.'

install: $(STAMP) $(NATIVE_STAMP)

$(STAMP): pyproject.toml lab/pyproject.toml
	@test -n "$(PYTHON)" || { echo 'error: Python 3.11 or newer is needed' >&2; \
		echo '  hint: apt-get install python3 python3-venv python3-pip' >&2; exit 1; }
	@test -x $(BIN)/python -a -x $(BIN)/pip || { echo 'setting up $(VENV)'; $(PYTHON) -m venv $(VENV) >/dev/null 2>&1; } || \
		{ $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; } || \
		{ echo 'error: $(PYTHON) can neither make virtual environments nor run pip' >&2; \
		echo '  hint: apt-get install python3-venv python3-pip' >&2; exit 1; }
	$(PIP) -e . -e ./lab
	@touch $@

$(NATIVE_STAMP): $(STAMP) native/pyproject.toml native/setup.py $(wildcard native/src/* native/verbs/*)
	@if $(BIN)/python native/install.py; then touch $@; fi

# pip knows dependency groups since 25.1, and Python 3.11 brings 23.2.
$(VENV)/.group-%: $(STAMP) | $(NATIVE_STAMP)
	$(PIP) 'pip>=25.1'
	$(PIP) --group $*
	@touch $@

demo: install
	$(BIN)/rpcrdma demo

# Bytecode is kept even where the environment forbids it: the suite starts some five hundred Python processes, and each
# would compile the whole package, each worker every test besides. `git clean -dfX` removes it, and all else that was made here.
test test-all: export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# The other tests are those of `make interop`, tools/data-tools.sh, and pytest -m scale.
SUITE := not interop and not scale and not data_tools
test: $(DEV_STAMP)
	$(PYTEST) -m 'not thorough and $(SUITE)'

test-all: $(DEV_STAMP)
	$(PYTEST) -m '$(SUITE)' --ledger 'make test-all'

check: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/house/test_layers.py tests/house/test_boundary.py tests/house/test_ledger.py \
		tests/house/test_generated_code.py tests/house/test_words.py tests/house/test_time_in_tests.py \
		tests/house/test_memory_names.py
	@mkdir -p build && $(BIN)/python -m pytest --collect-only -q --ledger 'make test-all' -m '$(SUITE)' >build/collected.txt || \
		{ tail -n 40 build/collected.txt; exit 1; }

# From the source distributions, so that they are known to be whole. Then an environment that has the wheels alone runs the
# demonstration with that of the library, whose hint names the lab, and with all three the commands that README begins with.
# W009: the native module has two modules on purpose. RPATH, RUNPATH: folders of the builder's machine.
WHEELS_VENV := build/wheels-venv
WHEELS_PIP := $(BIN)/python -m pip --python $(WHEELS_VENV)/bin/python install --quiet --disable-pip-version-check
wheels: $(DEV_STAMP) $(VENV)/.group-wheels
	rm -rf build/wheels $(WHEELS_VENV) native/build && mkdir -p build
	for each in . lab native; do $(BIN)/python -m build --outdir build/wheels/made $$each || exit 1; done \
		>build/wheels.log 2>&1 || { cat build/wheels.log; exit 1; }
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m auditwheel repair -w build/wheels build/wheels/made/rpcrdma_native-*.whl
	mv build/wheels/made/*.tar.gz build/wheels/made/*-none-any.whl build/wheels && rm -r build/wheels/made
	$(BIN)/twine check --strict build/wheels/*
	$(BIN)/check-wheel-contents --package src/rpcrdma build/wheels/rpcrdma-*.whl
	$(BIN)/check-wheel-contents --package lab/src/rpcrdma_lab build/wheels/rpcrdma_lab-*.whl
	$(BIN)/check-wheel-contents --ignore W009 build/wheels/rpcrdma_native-*.whl
	$(BIN)/python -m venv --without-pip $(WHEELS_VENV)
	$(WHEELS_PIP) build/wheels/rpcrdma-*.whl
	$(WHEELS_VENV)/bin/rpcrdma demo
	$(WHEELS_VENV)/bin/rpcrdma decode 2>&1 | grep 'decode is a command of rpcrdma-lab'
	$(WHEELS_PIP) build/wheels/*.whl
	$(WHEELS_VENV)/bin/rpcrdma doctor | grep 'data path  *native,'
	! readelf --dynamic --wide $(WHEELS_VENV)/lib/python*/site-packages/rpcrdma_*.so | grep -E '\((RPATH|RUNPATH)\)'
	RPCRDMA_COMMANDS=$(WHEELS_VENV)/bin $(BIN)/python -m pytest tests/house/test_readme.py -k first_commands_of_readme
	@ls build/wheels

# With the native module, so that it takes a C compiler.
DEB_STAMP := build/deb/.built
deb: $(VENV)/.group-docs $(DEB_STAMP)
	@ls build/deb/*.deb

$(DEB_STAMP): $(shell git ls-files src native packaging docs CHANGELOG.md 2>/dev/null) | $(VENV)/.group-docs
	$(BIN)/python packaging/deb/debian_package.py build/deb
	@touch $@

# With the binding of Kerberos, which is built from its source.
$(VENV)/.extra-kerberos: $(STAMP)
	tools/debian-packages.sh kerberos
	$(PIP) -e '.[kerberos]'
	@touch $@

interop: $(DEV_STAMP) $(VENV)/.extra-kerberos $(DEB_STAMP)
	tools/debian-packages.sh interop kerberos
	$(BIN)/python -m pytest -m interop tests/interop lab/tests/interop --ledger 'make interop'

interop-kernel: $(DEV_STAMP) $(VENV)/.extra-kerberos $(DEB_STAMP)
	tools/debian-packages.sh kernel kerberos
	$(BIN)/python tests/interop/kernel/run.py $(CHECKS)

bench: $(DEV_STAMP)
	@$(MAKE) --silent $(VENV)/.group-bench || echo 'gRPC is left out of the comparison'
	$(BIN)/python benchmarks/bench.py $(if $(QUICK),--quick,--write docs/performance.md) $(if $(AGAINST),--against $(AGAINST)/src)

docs: $(VENV)/.group-docs
	$(BIN)/python -m sphinx --quiet --fail-on-warning --builder html docs build/docs
	@echo 'the documentation is in build/docs/index.html'
