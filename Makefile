# Everything that a developer runs. On a Debian machine it needs git, make, python3 and python3-venv.
#
#   make demo       20 jobs through a private pool, from SQL and submit description to results
#   make check      lint, unit tests and house rules, within a minute: before each commit
#   make test       the test suite that CI runs: one case of each heavy test, real HTCondor included
#                   TESTS=tests/queue only these; LOAD=4 beside four busy processes; WORKERS=2 so many at once
#   make test-all   everything: each HTCondor, more seeds and examples, lowest versions of dependencies
#   make test-lowest  tests without HTCondor, with the lowest versions of dependencies that pyproject.toml allows
#   make docs       the documents as a site, in build/docs: open build/docs/index.html
#   make lint       formatting, rules, types, of Python and of SQL
#   make bench-X    the benchmark tests/benchmarks/bench_X.py, with ARGS; its last line is `name: figure`
#   make bench-compare OLD=commit WHICH="cycle match"  benchmarks of a commit and of this checkout in turn
#   make fuzz-hooks  search for bytes that the compiled hook can't take, for SECONDS=600
#   make soak       200 fault runs of 500 jobs, and 1 000 agents that come back: half an hour;
#                   ARGS=--short: a few minutes
#   make evidence   histories of clients and pools under faults, judged by what they were told (tests/evidence)
#   make evidence-classads  ARGS=100000 expressions, in the bindings' ClassAd library and in the next HTCondor's
#   make screenshots  pictures of the pages with 20 000 jobs, at two widths, light and dark, to look at
#   make release    the files of a release, in dist: wheel, source, documents, list of parts (SBOM), checksums
#   make deb        a Debian package, in build/deb, for this machine's Python or for DEB_PYTHON=3.13
#   make lock       choose the newest allowed versions of all dependencies anew

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

# auto: as many workers as the named tests can use, see tests/conftest.py
WORKERS ?= auto
TESTS ?= tests
LOAD ?= 0
PYTEST = $(BIN)/pytest -n $(WORKERS) --load $(LOAD)

# with this variable set, hundreds of processes would each compile the package again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: bench-compare docs demo check evidence evidence-classads test test-all test-lowest lint lock postgres postgres-versions patroni strace browser soak fuzz-hooks screenshots release deb

demo: $(INSTALLED)
	@$(BIN)/fetchwork demo

test: $(INSTALLED) postgres strace
	@# in a new checkout, or each worker would compile all tests
	@test -d tests/__pycache__ || $(BIN)/pytest --collect-only -q $(TESTS) >/dev/null || true
	@$(PYTEST) --no-loadscope-reorder --durations 15 $(TESTS)

check: lint
	@$(PYTEST) -q -m 'not slow' tests/unit tests/house

test-all: $(INSTALLED) postgres postgres-versions patroni strace browser
	@$(PYTEST) --all --no-loadscope-reorder --durations 30 $(TESTS)
	@$(MAKE) --no-print-directory test-lowest
	@echo "test-all: everything passed at $$(git describe --always --dirty)"

test-lowest: postgres
	@test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	@$(PYTHON) tests/support/write_lowest.py > .venv-lowest/lowest.txt
	@.venv-lowest/bin/pip install -qq --disable-pip-version-check -r .venv-lowest/lowest.txt hatchling editables
	@.venv-lowest/bin/pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@.venv-lowest/bin/pytest -n 2 --postgres wheel --ignore tests/condor --ignore tests/dag --ignore tests/faults --ignore tests/clients tests

lint: $(INSTALLED)
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/python -m tests.house.lint_sql

# a warning is an error: a link that leads nowhere is one. All pages anew: what is generated changes without them
docs: $(INSTALLED)
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env --write-all \
	    --conf-dir docs --doctree-dir build/doctrees . build/docs
	@echo "docs: build/docs/index.html"

bench-%: $(INSTALLED)
	@$(BIN)/python -m tests.benchmarks.run $* $(ARGS)

bench-compare: $(INSTALLED)
	@$(BIN)/python tests/benchmarks/compare.py $(OLD) $(WHICH) $(ARGS)

fuzz-hooks:
	@SECONDS=$(or $(SECONDS),600) tests/hooks/fuzz/run

soak: $(INSTALLED)
	@$(BIN)/python tests/benchmarks/soak.py $(ARGS)

evidence: $(INSTALLED) postgres
	@$(BIN)/python -m tests.evidence $(ARGS)

evidence-classads: $(INSTALLED)
	@$(BIN)/python -m tests.evidence.classads $(ARGS)

$(INSTALLED): requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing dependencies into .venv"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --requirement requirements.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# The SQL tests also run on the system's PostgreSQL, through PgBouncer. If it is missing, root installs it without a cluster.
postgres:
	@{ ls /usr/lib/postgresql/*/bin/postgres && test -x /usr/sbin/pgbouncer; } >/dev/null 2>&1 || \
	    tests/support/install-postgres

# PostgreSQL 14 and 17, for tests/evidence.
postgres-versions: $(INSTALLED) postgres
	@tests/support/install-postgres-versions

# Two PostgreSQL servers under Patroni, for tests/evidence.
patroni:
	@tests/support/install-patroni

# System calls are traced for tests/evidence, and clocks are set for tests/faults.
strace:
	@tests/support/install-strace

# A real browser for the tests of the page.
browser: $(INSTALLED)
	@tests/support/install-browser
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-build-isolation --editable '.[browser]' || echo "no playwright and schemathesis: pip could not install it"

screenshots: browser
	@$(BIN)/python -m tests.page.screenshots $(ARGS)

release: docs
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-build-isolation --editable '.[release]'
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist . >/dev/null
	@$(BIN)/twine check --strict dist/*
	@version=$$($(BIN)/python -c 'import fetchwork; print(fetchwork.__version__)') && \
	    tar -C build/docs -czf dist/fetchwork-$$version-docs.tar.gz . && \
	    PYTHONWARNINGS=ignore $(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
	        --output-file dist/fetchwork-$$version.cdx.json requirements.lock && \
	    (cd dist && sha256sum fetchwork* > SHA256SUMS && cat SHA256SUMS) && \
	    echo "release: left to do: gpg --armor --detach-sign dist/SHA256SUMS;" \
	        "git tag --sign v$$version; twine upload dist/*.whl dist/fetchwork-$$version.tar.gz"

# with all dependencies below /opt/fetchwork
DEB_DIR ?= build/deb
deb: $(INSTALLED)
	@rm -rf $(DEB_DIR)
	@$(BIN)/python -m pip wheel -qq --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir $(DEB_DIR) .
	@PIP_PYTHON=$(BIN)/python config-examples/debian/build $(DEB_DIR)/fetchwork-*.whl $(DEB_DIR) $(DEB_PYTHON)

lock: $(INSTALLED)
	@$(BIN)/python -m pip install -qq --dry-run --ignore-installed --report .venv/report.json \
	    '.[test]' hatchling editables
	@$(BIN)/python tests/support/write_lock.py .venv/report.json > requirements.lock
