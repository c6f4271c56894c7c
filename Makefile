# Everything here works on the environment that the README's second command makes.
VENV ?= .venv
PYTHON := $(VENV)/bin/python
PROMPT ?= Write a Python function that reverses a linked list.

.PHONY: run test test-slow lint format types bench clean

$(PYTHON):
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install -e '.[test]'

run: $(PYTHON) ## Talk to the default pair
	$(VENV)/bin/localspec chat "$(PROMPT)"

test: $(PYTHON) ## What must pass before a commit
	$(VENV)/bin/pytest

test-slow: $(PYTHON) ## The tests that take minutes
	$(VENV)/bin/pytest -m slow

lint: $(PYTHON)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(PYTHON)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

# mypy finds packages by folder, but tui/ and models/ are localspec.tui and localspec.models only once they are
# installed. .ci/types shows it a folder of links in which they are in their place.
types: $(PYTHON)
	PYTHON=$(abspath $(PYTHON)) .ci/types

bench: $(PYTHON) ## The same prompt with and without a draft
	$(VENV)/bin/localspec run --compare --temp 0 -n 256 "$(PROMPT)"

clean:
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
