# Every target creates the virtual environment and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# pip compiles no bytecode, because most of the 21,000 modules are never imported. The tests start
# hundreds of processes, so the bytecode of imported modules is kept.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip install --quiet --quiet --no-compile --disable-pip-version-check -c constraints.txt

# Packages of larger models.
MODELS := $(patsubst %/pyproject.toml,./%,$(wildcard models/*/pyproject.toml))

.PHONY: demo models test coverage test-kernels check format docs bench image-steps clean

demo: $(VENV)/.train
	$(BIN)/elmo demo

# Without dependencies, because elmo-torch is installed from this folder, not from an index.
models: $(VENV)/.core
	$(if $(MODELS),,$(error There is no model package to install: models/*/pyproject.toml does not exist))
	$(INSTALL) --no-deps $(MODELS)

# Three processes keep two cores busy, because many tests wait for a browser or another process.
test: $(VENV)/.test
	$(BIN)/python -m pytest -n 3 --dist worksteal

# Measuring coverage takes nearly as long as the tests themselves.
coverage: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term --cov-fail-under=95

# Tests of the GPU kernels in Triton's interpreter, without a GPU (Triton takes 1 GB).
test-kernels: $(VENV)/.kernels
	TRITON_INTERPRET=1 $(BIN)/python -m pytest -n 2 tests/kernels

# The wording test is also part of `make test`; here it fails early.
check: $(VENV)/.check
	$(BIN)/ruff format --check src tests benchmarks examples runs docs tools docker
	$(BIN)/ruff check src tests benchmarks examples runs docs tools docker
	$(BIN)/flake8 src benchmarks examples runs docs tools docker
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_wording.py

format: $(VENV)/.check
	$(BIN)/ruff format src tests benchmarks examples runs docs tools docker
	$(BIN)/ruff check --fix src tests benchmarks examples runs docs tools docker

docs: $(VENV)/.docs
	$(BIN)/python docs/make_cli_page.py
	$(BIN)/python docs/make_models_page.py
	$(BIN)/mkdocs build --strict

bench: $(VENV)/.core
	$(BIN)/python benchmarks/characters.py
	$(BIN)/python benchmarks/embed.py

# The steps of docker/Dockerfile in a new environment, without a container engine.
image-steps:
	folder=$$(mktemp -d) && trap "rm -rf $$folder" EXIT && chmod 755 $$folder && \
	PATH=$$(dirname $$(command -v $(PYTHON))):$$PATH sh docker/steps.sh install $$folder/elmo && \
	sh docker/steps.sh kernels $$folder/elmo && sh docker/steps.sh check $$folder/elmo

clean:
	rm -rf $(VENV) build dist site

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e .
	touch $@

$(VENV)/.train: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[train]'
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[test]'
	touch $@

$(VENV)/.kernels: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[test,kernels]'
	touch $@

$(VENV)/.check: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[test,check]'
	touch $@ $(VENV)/.test

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[docs]'
	touch $@
