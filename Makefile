# Each target makes the virtual environment that it needs, once: .venv-<name>.
PYTHON ?= python3
WORKERS ?= 2
PIP_FLAGS ?= --quiet --disable-pip-version-check

SOURCES := effx tests property_tests benchmarks examples tools stubs compat
CHECKED := $(wildcard effx tests property_tests examples benchmarks tools)
TESTED := $(wildcard tests property_tests effx README.md docs)

.PHONY: help demo cluster test test-deep test-compat test-suites test-array-api test-accelerators test-gpu docs bench bench-peers bench-compat differences release-check lint style layers types stubs guarded suite clean
.NOTPARALLEL:

help:
	@echo "make demo       train a classifier on handwritten digits (examples/digits.py)"
	@echo "make cluster    train a transformer in one process and in four, and compare the losses"
	@echo "make test       lint, layers, types, stubs and the whole test suite"
	@echo "make test-deep  the slow tests, and many more examples for every property"
	@echo "make test-compat  JAX's libraries on effx, against the numbers that JAX gives"
	@echo "make test-suites  the libraries' own tests on effx, against how they end with JAX (SUITES=folder of checkouts)"
	@echo "make test-array-api  the array API standard's own tests (ARRAY_API_TESTS=folder, or it is cloned)"
	@echo "make test-accelerators  compiles for an H100 and a TPU v5e that need not be there, beside JAX"
	@echo "make test-gpu   runs on the GPU that is here, and prints a report of values and times to send"
	@echo "make docs       the documentation site, docs/_build/html, from an environment of its own; opened in Chromium if it is here"
	@echo "make bench      effx against JAX, with budgets"
	@echo "make bench-peers  effx, JAX and NumPy on the same calls, in turns; with TORCH=1 PyTorch too"
	@echo "make bench-compat  JAX's libraries: time to the first step and of a step, on effx and on JAX"
	@echo "make differences  effx against JAX on 5,000 expressions: what differs without a reason"
	@echo "make release-check  builds the sdist and the wheel, and tries the wheel with each Python that is here"
	@echo "make lint       style, layers and the count of Any"

# --- environments ---------------------------------------------------------------------------------

EXTRAS_demo := examples
EXTRAS_test := test,interop
EXTRAS_bench := bench
EXTRAS_bench-peers := bench-peers
EXTRAS_lint := lint
EXTRAS_docs := docs
EXTRAS_release := release
EXTRAS_array-api := test,array-api
EXTRAS_accelerators := test,accelerators
EXTRAS_gpu := test,cuda$(CUDA)
CUDA ?= 12

EXTRAS_compat := compat,compat-libraries
EXTRAS_suites := compat,compat-libraries,compat-suites
EXTRAS_bench-libraries := bench,compat-libraries
# Installed before the rest: it makes pip see a jax, which the libraries require and which is not to come.
BEFORE_compat := ./compat/distribution
BEFORE_suites := ./compat/distribution
# Installed after the rest, without CUDA's libraries: the plugin of the jaxlib that is there, and the compiler of PTX.
AFTER_accelerators = --no-deps nvidia-cuda-nvcc-cu12 $(foreach part,plugin pjrt,jax-cuda12-$(part)==$(JAXLIB_accelerators))
# The shell asks, not make, which reads a recipe as a whole before the environment is there.
JAXLIB_accelerators = $$(.venv-accelerators/bin/python -c "from jaxlib.version import __version__; print(__version__)")

.venv-%/.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-$*
	$(if $(BEFORE_$*),.venv-$*/bin/python -m pip install $(PIP_FLAGS) $(BEFORE_$*))
	.venv-$*/bin/python -m pip install $(PIP_FLAGS) -e '.[$(EXTRAS_$*)]'
	$(if $(AFTER_$*),.venv-$*/bin/python -m pip install $(PIP_FLAGS) $(AFTER_$*))
	@touch $@

.PRECIOUS: .venv-%/.stamp

# --- what people run ------------------------------------------------------------------------------

demo: .venv-demo/.stamp
	.venv-demo/bin/python examples/digits.py

# One process with eight devices, then four with two each: the same job, the same losses.
CLUSTER_JOB := examples/data_and_tensor_parallel.py --steps 60
cluster: .venv-demo/.stamp
	.venv-demo/bin/python $(CLUSTER_JOB) --losses examples/out/one_process.txt
	.venv-demo/bin/python -m effx.distributed.launch -n 4 --devices-per-process 2 \
	  $(CLUSTER_JOB) --same-as examples/out/one_process.txt

test: .venv-test/.stamp
	@$(MAKE) --no-print-directory VENV=.venv-test style layers types stubs guarded suite

test-deep: .venv-test/.stamp
	HYPOTHESIS_PROFILE=deep .venv-test/bin/python -m pytest $(TESTED) $(SPREAD) -m "deep or not deep"

# Jobs of JAX's libraries, on effx, against the numbers that JAX gave; and effx's handlers on their models.
# The files of tests only: pytest would import the jobs for their doctests, and they import jax.
test-compat: .venv-compat/.stamp
	.venv-compat/bin/python -m pytest $(wildcard compat/jobs/test_*.py) -q

# SUITES is a folder with checkouts of the libraries whose wheels have no tests. It takes hours.
test-suites: .venv-suites/.stamp
	.venv-suites/bin/python -m tools.library_suites $(SUITES) $(SUITES_FLAGS)

test-array-api: .venv-array-api/.stamp
	.venv-array-api/bin/python -m tools.array_api $(ARRAY_API_TESTS)

# Some 10 minutes for each library.
test-accelerators: .venv-accelerators/.stamp
	.venv-accelerators/bin/python -m tools.accelerators $(ACCELERATORS_FLAGS)

# CUDA=13 for the plugin of CUDA 13. Several processes share the GPU's memory.
test-gpu: .venv-gpu/.stamp
	.venv-gpu/bin/python -m tools.accelerators.running --report gpu-report.txt $(GPU_FLAGS)
	XLA_PYTHON_CLIENT_PREALLOCATE=false .venv-gpu/bin/python -m pytest -m "gpu and not deep" -n auto --tb=short \
		--junitxml=gpu-tests.xml tests

# Warnings are errors, among them links to what is not there. Notebooks run again when they or the packages have changed.
docs: .venv-docs/.stamp
	.venv-docs/bin/python -m sphinx -W --keep-going -q -c tools/site docs docs/_build/html
	.venv-docs/bin/python -m tools.site.browse docs/_build/html

bench: .venv-bench/.stamp
	.venv-bench/bin/python -m benchmarks $(BENCH_FLAGS)

bench-peers: .venv-bench-peers/.stamp
	$(if $(TORCH),.venv-bench-peers/bin/python -m pip install $(PIP_FLAGS) torch)
	.venv-bench-peers/bin/python -m benchmarks.across_libraries $(BENCH_FLAGS)

bench-compat: .venv-compat/.stamp .venv-bench-libraries/.stamp
	.venv-compat/bin/python -m benchmarks.libraries --jax .venv-bench-libraries/bin/python $(BENCH_FLAGS)

# effx and JAX on one list of expressions: what differs without a reason.
differences: .venv-test/.stamp
	.venv-test/bin/python -m tools.differences

# Some 30 seconds for each Python. RELEASE_FLAGS="--pythons 3.12" for one.
release-check: .venv-release/.stamp
	.venv-release/bin/python -m tools.release_check $(RELEASE_FLAGS)

lint: .venv-lint/.stamp
	@$(MAKE) --no-print-directory VENV=.venv-lint style layers

# --- the parts, each run in the environment $(VENV) -----------------------------------------------

VENV ?= .venv-test
# Neighbours share compiled programs, so each worker gets a stretch of tests, and takes of the other's when it is done.
SPREAD := -n $(WORKERS) --dist worksteal

style:
	$(VENV)/bin/ruff check $(wildcard $(SOURCES))
	$(VENV)/bin/ruff format --check $(wildcard $(SOURCES))
	$(VENV)/bin/python tools/count_any.py

layers:
	$(VENV)/bin/lint-imports

types:
	$(VENV)/bin/python -m mypy --strict $(CHECKED)
	$(VENV)/bin/python -m pytest tests/typing -q -n 0

stubs:
	$(VENV)/bin/python -m tools.check_stubs

# Each test runs once: guarded by typeguard's hook over the core, over the library, or without it. The marks
# come from tests/conftest.py.
# No bytecode is kept: what typeguard's hook loads would load what another guarded run had left.
guarded: export PYTHONDONTWRITEBYTECODE = 1
guarded:
	$(VENV)/bin/python -m pytest tests $(SPREAD) -q -m "guarded and not deep" --guard=core
	$(VENV)/bin/python -m pytest tests/library $(SPREAD) -q -m "library and not deep" \
	  --guard=library

suite:
	$(VENV)/bin/python -m pytest $(TESTED) --ignore=tests/typing $(SPREAD) -m "not deep and not guarded and not library"

clean:
	rm -rf .venv-* docs/_build docs/reference gpu-report.txt gpu-tests.xml .mypy_cache .pytest_cache .ruff_cache
	rm -rf .import_linter_cache .hypothesis build dist examples/out benchmarks/results
