# Every target sets up what it needs: a virtual environment in .venv, under constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: demo test lint format proof browser

$(READY): pyproject.toml constraints.txt $(wildcard attendo/native/*.[ch])
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $(READY)

# Trains on the built-in sample for a few minutes, scores it, translates; leaves runs/demo and sample/.
demo: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/demo.sh

# Lint, types and the quick tests, on all cores: each test takes one.
test: lint browser
	$(BIN)/python -m pytest -m "not proof" -n auto --dist worksteal

# Chromium, in which the web page is tested: from Debian's packages, where it is missing and they may be installed.
browser:
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium chromium-driver >/dev/null; \
	fi || true

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The long checks.
proof: $(READY)
	$(BIN)/python -m pytest -m proof
