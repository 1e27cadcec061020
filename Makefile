# Every target sets up what it needs: a fresh machine has only Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
DATA   ?= ../shared/data

.PHONY: setup demo test lint types unit test-realdata bench bench-scale reproduce truth tried journey clean

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

# Writes 14.5 million rows to a temporary folder (TMPDIR); needs some 4 GB of disk and 6 GB of memory.
bench-scale: setup
	$(BIN)/python -m benchmarks scale

# The paper's experiments on the judged data in $(DATA) if it is there, else on the synthetic collection.
# Killed at any moment, `make reproduce` goes on where it was.
REPRODUCE := rq1 rq2 rq4 rq5 rq6 rq7 production residual-only stage-one residuals validation placebo inference
MQ2008    := $(wildcard $(DATA)/letor/mq2008.txt.xz)
MQ2007    := $(wildcard $(DATA)/letor/mq2007-part.txt.xz)
RUN       := out/reproduce
# Units that failed are in the report; they do not keep it from being written.
BENCH      = $(BIN)/unskew bench run --out $(RUN) $(1) || [ $$? -eq 1 ]

reproduce: setup
ifneq ($(MQ2008),)
	$(call BENCH,$(REPRODUCE) --data $(MQ2008) --max-grade 2)
endif
ifneq ($(MQ2007),)
	$(call BENCH,rq1 --data $(MQ2007) --max-grade 2)
	$(call BENCH,$(filter-out rq1,$(REPRODUCE)) --rankers lambdamart --data $(MQ2007) --max-grade 2)
endif
ifeq ($(MQ2008)$(MQ2007),)
	$(call BENCH,$(REPRODUCE))
endif
	$(BIN)/unskew report $(RUN) -o report.html
	$(BIN)/unskew bench results $(RUN) --keep results -o RESULTS.md

# Our own studies: what works where, on the half of MQ2007 that nothing was tried on, on MQ2008 and on synthetic queries.
TRUTH := out/truth

truth: RUN = $(TRUTH)
truth: setup
ifneq ($(MQ2007),)
	$(call BENCH,truth --half untouched --data $(MQ2007) --max-grade 2)
	$(call BENCH,hidden --half development --data $(MQ2007) --max-grade 2)
endif
ifneq ($(MQ2008),)
	$(call BENCH,referee truth hidden --data $(MQ2008) --max-grade 2)
endif
	$(call BENCH,truth --data synthetic:200)
	$(call BENCH,hidden --folds 1 --data synthetic:2000)
	$(BIN)/unskew bench results $(TRUTH) --keep results -o RESULTS.md

# Changes to the full control function, on the half of MQ2007 that may be looked at, as docs/tried.md: half an hour.
tried: setup
	$(if $(MQ2007),,$(error no judged data in $(DATA): make tried DATA=<folder with mq2007*.txt.xz>))
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.tried $(MQ2007) --max-grade 2 --half development --out docs/tried.md

# simulate, fit, rank, evaluate on the judged data in $(DATA): what was typed and printed, as docs/journey.md.
journey: setup
	$(BIN)/python -m benchmarks.journey $(MQ2008) $(MQ2007) --max-grade 2 --out docs/journey.md

clean:
	rm -rf $(VENV) out report.html build dist .pytest_cache .mypy_cache .ruff_cache
