# `make site` builds the site, `make test` tests everything. Each sets up first whatever is missing.

PYTHON ?= python3
BIN := .venv/bin
AGE := import sys; sys.version_info < (3, 11) and sys.exit("Python %d.%d is too old: 3.11 or newer is needed. \
  If there is one, name it, for example: make PYTHON=python3.11 site" % sys.version_info[:2])
BIOME := $(BIN)/node node_modules/.bin/biome

.PHONY: site test serve films lint format lock clean set-up

site: films
	$(BIN)/python -m docs.gather
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "The site is in site/: open site/index.html, or run make serve"

films: set-up
	$(BIN)/python -m scenes render --theme both --quality h

test:
	@$(MAKE) --no-print-directory set-up SET_UP=--tests
	@$(MAKE) --no-print-directory lint
	$(BIN)/python -m scenes render --theme both --quality l --out build/test-films
	$(BIN)/python -m pytest -n auto --maxprocesses 4

serve: set-up
	$(BIN)/python -m docs.serve

lint: set-up
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIOME) check --no-errors-on-unmatched

format: set-up
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIOME) check --write --no-errors-on-unmatched

# Locks are resolved for the oldest Python supported, and name no index host.
lock: set-up
	mkdir -p build
	echo '# Every package of .venv, with its hashes; made by `make lock` from pyproject.toml.' > build/requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra scenes --extra cluster --extra docs --extra dev --group build --upgrade --quiet \
	  --python-version 3.11.2 --universal --fork-strategy fewest \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header >> build/requirements.lock
	mv build/requirements.lock requirements.lock
	PATH="$(CURDIR)/$(BIN):$$PATH" npm update --package-lock-only --omit-lockfile-registry-resolved

clean:
	rm -rf build site media docs/films docs/assets/vendor

set-up:
	@$(PYTHON) -c '$(AGE)'
	@$(PYTHON) scripts/set_up.py $(SET_UP)
