"""The tests of rights can fail: one of them notices each way to break grants and row policies."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def view_without_policy(view: str, shown: str = "true") -> str:
    """A view that does not check its rows' owner."""
    return f"""
        DO $$
        DECLARE
            text text := pg_get_viewdef('fetchwork.{view}'::regclass);
            shown text := regexp_replace(text, '\\( ?SELECT fetchwork\\.sees_all\\(CURRENT_USER\\) AS sees_all\\)', '{shown}');
        BEGIN
            ASSERT shown <> text, text;
            EXECUTE 'CREATE OR REPLACE VIEW fetchwork.{view} WITH (security_barrier) AS ' || shown;
        END
        $$
    """


MUTATIONS = {
    "a table is readable": (
        "GRANT SELECT ON fetchwork.run TO fetchwork_reader",
        "test_nobody_reads_or_writes_a_table",
    ),
    "a sequence is writable": (
        "GRANT UPDATE ON SEQUENCE fetchwork.cluster_id TO fetchwork_submitter",
        "test_nobody_alters_functions_views_or_the_schema",
    ),
    "a function of agents is for submitters": (
        "GRANT EXECUTE ON FUNCTION fetchwork.host_runs TO fetchwork_submitter",
        "test_each_function_is_for_those_whom_it_is_for",
    ),
    "a function is for everybody": (
        "GRANT EXECUTE ON FUNCTION fetchwork.set_setting TO PUBLIC",
        "test_each_function_is_for_those_whom_it_is_for",
    ),
    "what a view calls is not granted": (
        "REVOKE EXECUTE ON FUNCTION fetchwork.integer_of FROM fetchwork_submitter",
        "test_every_column_of_every_view_is_readable",
    ),
    "a view is not granted": (
        "REVOKE SELECT ON fetchwork.slots FROM fetchwork_reader",
        "test_every_column_of_every_view_is_readable",
    ),
    "the jobs of all are shown": (
        view_without_policy("jobs"),
        "test_a_submitter_sees_his_own_jobs_and_nobody_elses",
    ),
    "the credentials of all are shown": (
        "CREATE OR REPLACE VIEW fetchwork.credentials WITH (security_barrier) AS SELECT c.owner, c.name,"
        " c.permissions, c.resource, c.renewable, c.key_id AS keyid, c.stored_at, c.renewed_at, c.expires_at"
        " FROM fetchwork.credential AS c",
        "test_each_sees_which_are_stored_of_his_own",
    ),
    "what is sealed is for submitters": (
        "GRANT EXECUTE ON FUNCTION fetchwork.run_credentials TO fetchwork_submitter",
        "test_who_submits_can_not_have_what_is_sealed",
    ),
    "the batches of all are shown": (
        view_without_policy("batches"),
        "test_a_submitter_sees_his_own_jobs_and_nobody_elses",
    ),
    "a reader sees nothing": (
        view_without_policy("history", "false"),
        "test_readers_agents_and_administrators_see_all_jobs",
    ),
    "a view is no barrier": (
        "ALTER VIEW fetchwork.history RESET (security_barrier)",
        "test_a_function_of_the_readers_own_sees_no_row",
    ),
    "everybody may name every owner": (
        "CREATE OR REPLACE FUNCTION fetchwork.own_owners(role name) RETURNS text[] LANGUAGE sql STABLE"
        " SECURITY DEFINER SET search_path = pg_catalog, pg_temp"
        " AS 'SELECT array_agg(g.owner) FROM fetchwork.owner_grant AS g'",
        "test_a_submitter_sees_his_own_jobs_and_nobody_elses",
    ),
    "everybody is an administrator": (
        "CREATE OR REPLACE FUNCTION fetchwork.is_admin(role name) RETURNS boolean LANGUAGE sql STABLE"
        " SET search_path = pg_catalog, pg_temp AS 'SELECT true'",
        "test_nobody_submits_as_an_owner_that_he_may_not_name",
    ),
    "a function takes the caller's search_path": (
        "ALTER FUNCTION fetchwork.submit_cluster RESET search_path",
        "search_path",
    ),
    "whose token it is does not matter": (
        "CREATE OR REPLACE FUNCTION fetchwork.proves(brought uuid, token uuid, host_id integer) RETURNS boolean LANGUAGE sql"
        " AS 'SELECT true'",
        "test_an_agent_changes_no_run_without_its_token",
    ),
    "every accounting group may be charged": (
        "CREATE OR REPLACE FUNCTION fetchwork.may_charge(role name, charged text) RETURNS boolean LANGUAGE sql"
        " AS 'SELECT true'",
        "charged",
    ),
}


#: one of each sort, because each is a run of pytest with a server of its own: a grant, a policy, a function's
#: answer
SOME = (
    "a table is readable",
    "a function of agents is for submitters",
    "the jobs of all are shown",
    "everybody may name every owner",
    "whose token it is does not matter",
)


@pytest.mark.parametrize(
    "mutation", [pytest.param(name, marks=[] if name in SOME else pytest.mark.all) for name in MUTATIONS]
)
def test_a_broken_schema_is_seen(mutation: str) -> None:
    statement, noticed_by = MUTATIONS[mutation]
    only = [
        "-k",
        noticed_by,
        "--tb=line",
        *(str(HERE / f"test_{name}.py") for name in ("roles", "credentials")),
    ]
    told = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "tests.security.broken",
            *only,
        ],
        env={**os.environ, "FETCHWORK_TEST_BREAK": statement},
        cwd=HERE.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    # 1: tests failed, and not because a database was missing
    assert told.returncode == 1, told.stdout + told.stderr
    assert re.search(r"^FAILED .*::\w*" + noticed_by, told.stdout, re.M), told.stdout
    assert not re.search(r"^ERROR ", told.stdout, re.M), told.stdout
