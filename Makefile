# Every target sets up what it needs: a fresh machine has only Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
DATA   ?= ../shared/data

.PHONY: setup demo test lint types unit test-realdata bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "unskew needs Python 3.11 or newer; found $$($(PYTHON) --version). Name another with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[neural,xgboost,dask,onnx,treelite,dev]'
	@touch $(STAMP)

demo: setup
	$(BIN)/unskew demo --out out/demo

test: setup lint types unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

unit: setup
	$(BIN)/python -m pytest -q -n 2 -m "not realdata"

test-realdata: setup
	UNSKEW_TEST_DATA=$(DATA) $(BIN)/python -m pytest -q -m realdata

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache
