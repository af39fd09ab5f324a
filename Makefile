# krucible: verbs. Each makes .venv by itself. `make help` lists them.
# Debian builds its own with all optimisations; others that were built by hand often are slower.
PYTHON ?= $(shell for each in /usr/bin/python3.11 python3.11; do \
  $$each -m ensurepip --version >/dev/null 2>&1 && break; done; echo $$each)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check -q

.DEFAULT_GOAL := help

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt 'pip>=25.1'

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[browser,kafka,metrics,s3,spark]' --group dev
	@touch $@ $(VENV)/.run

run: $(VENV)/.run ## a real chaos run of half a minute on this machine, ending in a report
	$(BIN)/krucible run --voters 3 --observers 2 --nemesis all --pace dense --time-limit 34 --rate 150

setup: $(VENV)/.dev ## everything: run, tests, Spark, Java and browser parts

test: $(VENV)/.dev ## the whole test suite
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --maxprocesses 5 --dist loadfile \
	  --no-loadscope-reorder --durations 25

kafka: $(VENV)/.dev ## fetch Apache Kafka through Maven, for --system kafka and the tests against it [VERSION=...]
	@$(BIN)/python -m harness.systems.kafka.fetch $(VERSION)

docs: $(VENV)/.dev ## the docs as a site, in build/site; refuses links and anchors that lead nowhere
	$(BIN)/zensical build --clean --strict

pictures: $(VENV)/.dev ## take the pictures of the docs anew, in Chromium (some minutes)
	$(BIN)/python -m tools.pictures

check: $(VENV)/.dev ## ruff, mypy --strict, import contracts, the shape of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.house check

.PHONY: help run setup test kafka docs pictures check
