# Every target sets up what it needs from nothing but Python 3.11+, make and PyPI.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-dev
RUN_STAMP := $(VENV)/.installed-run
AUDIT_STAMP := $(VENV)-audit/.installed
PROJECTS := aiokube/pyproject.toml tinykube/pyproject.toml endpointd/pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help up docs audit sbom dist test simulate fuzz verdicts check test-cluster test-cluster-oldest test-conformance bench bench-embedded format lock clean

# What holds for the oldest version, too: reading and writing it, the rights, the first run, the differential.
OLDEST_TESTS := tests/contract/runtime tests/contract/client tests/cluster/test_permissions.py \
	tests/cluster/test_first_run.py::test_a_shop_is_published_field_by_field_as_upstream_publishes_it \
	tests/cluster/test_differential.py

help: ## show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

define set-up
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "endpointd needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1). Set PYTHON=python3.12, say." >&2; exit 2; }
	@echo "setting up $(VENV): the locked versions of requirements/$(1).lock, and this checkout"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/$(1).lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable aiokube --editable tinykube --editable endpointd
	@touch $(RUN_STAMP) $@
endef

$(RUN_STAMP): requirements/run.lock $(PROJECTS)
	$(call set-up,run)

$(STAMP): requirements/dev.lock $(PROJECTS)
	$(call set-up,dev)

up: $(RUN_STAMP) ## an API server, simulated pods and the controllers on this machine, with an example shop
	@echo "endpointd is installed as $(BIN)/endpointd; to call it by its name: export PATH=$(CURDIR)/$(BIN):\$$PATH"
	@$(BIN)/endpointd up -f examples/shop --speed 10


check: $(STAMP) ## format, lint, types, import contracts and prose
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/check_prose.py

docs: $(STAMP) ## the documentation site in docs/_build/html: warnings are errors; examples and internal links are checked
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python -m sphinx --fail-on-warning --quiet -b doctest -d docs/_build/doctrees docs docs/_build/doctest
	$(BIN)/python scripts/check_site.py docs/_build/html

test: $(STAMP) ## unit, property, contract and scenario tests
	$(BIN)/python -m pytest -q -m "not cluster"

verdicts: $(STAMP) ## what explain and check say of 49 broken set-ups, with all rights, without nodes and from files
	@PYTHONPATH=endpointd $(BIN)/python -m tests.unit.diagnose.verdicts

fuzz: $(STAMP) ## fuzz the parsers of client and server, requests and files for long (FUZZ_EXAMPLES, TINYKUBE_FUZZ_SEED)
	FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-20000} $(BIN)/python -m pytest -q -o timeout=0 tinykube/tests/property/test_server_parsers.py
	FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-20000} $(BIN)/python -m pytest -q -o timeout=0 aiokube/tests/property/test_client_parsers.py
	TINYKUBE_FUZZ_REQUESTS=$${FUZZ_REQUESTS:-50000} $(BIN)/python -m pytest -q -o timeout=0 tinykube/tests/unit/server/http/test_fuzz.py
	TINYKUBE_BIT_FLIPS=$${FUZZ_FLIPS:-2000} $(BIN)/python -m pytest -q -o timeout=0 tinykube/tests/unit/server/storage/test_damage.py -k flipped

$(AUDIT_STAMP): requirements/audit.lock
	@test -x $(VENV)-audit/bin/python || $(PYTHON) -m venv $(VENV)-audit
	@$(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/audit.lock
	@touch $@

audit: $(AUDIT_STAMP) ## check the locked dependencies against known advisories (AUDIT_REQUIRED=1: fail if that is impossible)
	@$(VENV)-audit/bin/python scripts/audit.py

sbom: $(AUDIT_STAMP) ## write dist/sbom-run.cdx.json and dist/sbom-dev.cdx.json, CycloneDX, from the lock files
	@mkdir -p dist
	@for lock in run dev; do $(VENV)-audit/bin/python -W ignore -m cyclonedx_py requirements requirements/$$lock.lock \
		--pyproject endpointd/pyproject.toml --mc-type application --output-reproducible --of JSON -o dist/sbom-$$lock.cdx.json; done

dist: $(STAMP) sbom ## build the wheels of a release, with checksums, SBOM and provenance, into dist
	@rm -f dist/*.whl dist/SHA256SUMS dist/provenance.json
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --wheel-dir=dist ./aiokube ./tinykube ./endpointd
	@$(BIN)/python scripts/provenance.py dist

test-cluster: $(STAMP) ## the tests on a real control plane (needs KUBEBUILDER_ASSETS)
	@$(BIN)/python -m pytest -q -m cluster || { \
		code=$$?; [ $$code -eq 1 ] || exit $$code; \
		echo "what failed is run once more: programs of others have their own pace on a busy machine"; \
		$(BIN)/python -m pytest -q -m cluster --last-failed --last-failed-no-failures=none; }

test-cluster-oldest: $(STAMP) ## the tests that hold for the oldest supported Kubernetes version (builds it; needs Go)
	@assets="$$(tests/cluster/programs/build oldest)" && KUBEBUILDER_ASSETS="$$assets" \
		$(BIN)/python -m pytest -q -m cluster $(OLDEST_TESTS)

test-conformance: $(STAMP) ## Kubernetes' conformance specs on tinykube, and with endpointd on a real control plane (builds them; needs Go)
	@program="$$(tests/cluster/programs/build conformance)/e2e.test" && \
		$(BIN)/python -m tests.conformance.run "$$program" $(CONFORMANCE_FLAGS)
	@if [ -n "$$KUBEBUILDER_ASSETS" ]; then $(BIN)/python -m pytest -q -m cluster tests/cluster/test_conformance.py; \
		else echo "the network specs with endpointd on a real control plane need KUBEBUILDER_ASSETS"; fi

bench: $(STAMP) ## side by side with kube-controller-manager (needs KUBEBUILDER_ASSETS)
	$(BIN)/python -m benchmarks.side_by_side

bench-embedded: $(STAMP) ## the embedded server beside etcd and kube-apiserver (needs KUBEBUILDER_ASSETS)
	$(BIN)/python -m benchmarks.embedded -o benchmarks/results/embedded.json

format: $(STAMP) ## format the code and mend what the linter can
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .

lock: ## update requirements/*.lock from the pyproject.toml of the packages
	@test -x $(VENV)-lock/bin/uv || { $(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/pip install --quiet uv; }
	cd requirements && for lock in run dev; do \
		../$(VENV)-lock/bin/uv pip compile $(addprefix ../,$(PROJECTS)) --group ../pyproject.toml:$$([ $$lock = dev ] && echo dev || echo build) \
		--universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 --quiet \
		--no-emit-package aiokube --no-emit-package tinykube -o $$lock.lock; done
	cd requirements && ../$(VENV)-lock/bin/uv pip compile --group ../pyproject.toml:audit --universal --generate-hashes \
		--no-emit-index-url --no-header --no-annotate --python-version 3.11 --quiet -o audit.lock

clean: ## remove what make has set up
	rm -rf $(VENV) $(VENV)-lock $(VENV)-audit dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
