"""The documents as a site: each page is in it, and the reference has what the code has."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from pydantic import BaseModel

import fetchwork
from docs import generate
from fetchwork.codes import HoldCode
from fetchwork.config.reference import SECTIONS
from fetchwork.config.sections import HostConfig
from tests.house.source import ROOT, shown, tracked

REFERENCE = ROOT / "docs/reference"
#: pages that no reader of the site looks for
LEFT_OUT = {"tests/benchmarks/peer_programs/README.md"}


def page(name: str) -> str:
    """A page of the reference as Sphinx reads it."""
    return generate.filled((REFERENCE / f"{name}.md").read_text(encoding="utf-8"))


def headings(text: str) -> list[str]:
    return re.findall(r"(?m)^#+ (.*)$", text)


def test_each_generated_part_is_on_one_page() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md"))
    assert sorted(re.findall(r"<!-- generated: (\S+) -->", pages)) == sorted(generate.PARTS)


def test_the_page_of_commands_has_each_command_and_each_of_its_options() -> None:
    text = page("commands")
    helps = dict(re.findall(r"(?s)#+ (fetchwork [^\n]*)\n\n```text\n(.*?)```", text))
    assert list(helps) == list(generate.commands())
    for words, command in generate.commands().items():
        missing = [
            option.opts
            for option in command.params
            if option.param_type_name == "option"
            and not getattr(option, "hidden", False)
            and not any(
                re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", helps[words]) for name in option.opts
            )
        ]
        assert not missing, words


def test_the_page_of_the_host_file_has_each_section_and_setting() -> None:
    text = page("host-file")

    def models(model: type[BaseModel]) -> set[type[BaseModel]]:
        inner = {
            kind
            for field in model.model_fields.values()
            for kind in re.findall(r"fetchwork\.config\.sections\.(\w+)", str(field.annotation))
        }
        return {getattr(sys.modules[HostConfig.__module__], kind) for kind in inner}

    known = models(HostConfig)
    known |= {each for model in known for each in models(model)}
    assert {section for _, section in SECTIONS} == known
    for heading, section in SECTIONS:
        part = text[text.index(f"## `{heading}`") :].partition("\n## ")[0]
        assert re.findall(r"(?m)^\| `(\w+)` \|", part) == list(section.model_fields)


def test_the_page_of_settings_has_those_of_the_database(connection: psycopg.Connection) -> None:
    rows = connection.execute("SELECT name, value::float8, unit, meaning FROM fetchwork.setting").fetchall()
    listed = {(name, float(value), *texts) for name, (value, *texts) in generate.database_settings().items()}
    assert listed == set(rows)
    assert all(f"| `{name}` |" in page("database-settings") for name, *_ in rows)


def test_the_page_of_views_has_each_view_with_its_columns(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        "SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)"
        " FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0"
        " WHERE c.relnamespace = 'fetchwork'::regnamespace AND c.relkind = 'v'"
        " AND has_table_privilege('fetchwork_reader', c.oid, 'SELECT') GROUP BY 1"
    ).fetchall()
    assert {name: generate.columns(name) for name in generate.views()} == dict(rows)
    assert headings(page("views"))[1:] == [f"fetchwork.{name}" for name in generate.views()]


def test_the_page_of_functions_has_those_that_people_and_administrators_may_call(
    connection: psycopg.Connection,
) -> None:
    rows = connection.execute(
        "SELECT DISTINCT p.proname FROM pg_proc AS p WHERE p.pronamespace = 'fetchwork'::regnamespace"
        " AND has_function_privilege('fetchwork_admin', p.oid, 'EXECUTE')"
        " AND NOT has_function_privilege('fetchwork_agent', p.oid, 'EXECUTE')"
    ).fetchall()
    # steps of an access point for the jobs that it runs itself
    own = {name for (name,) in rows} - {"claim_scheduler_job", "tend_scheduler_runs"}
    listed = [heading.partition("fetchwork.")[2] for heading in headings(page("functions")) if "." in heading]
    assert set(listed) == own
    assert all(generate.signatures(name) for name in listed)


def test_the_page_of_python_has_each_public_name() -> None:
    text = (REFERENCE / "python.md").read_text(encoding="utf-8")
    intro = text.partition("<!--")[0]
    theirs = {name for name in fetchwork.__all__ if f"`{name}`" in intro}
    assert theirs | set(generate.python_classes()) == set(fetchwork.__all__) - {"__version__"}
    shown = headings(page("python"))
    methods = {name for name, _ in inspect.getmembers(fetchwork.Queue) if not name.startswith("_")}
    assert {f"Queue.{name}" for name in methods} <= set(shown)


def test_the_page_of_rest_has_each_request() -> None:
    assert headings(page("rest"))[1:] == list(generate.rest())
    assert {"POST /api/v1/jobs", "GET /api/v1/events"} <= generate.rest().keys()


def test_the_page_of_numbers_has_the_hold_codes_of_the_program() -> None:
    codes = {number for name, number in vars(HoldCode).items() if name.isupper()} - {HoldCode.UNSPECIFIED}
    assert codes <= set(generate.hold_names())
    assert all(f"| {number} | `" in page("codes") for number in codes)


@pytest.mark.slow
def test_the_site_has_each_page_and_no_link_that_leads_nowhere(tmp_path: Path) -> None:
    words = ["--quiet", "--fail-on-warning", "--keep-going", "--conf-dir", "docs", "--doctree-dir"]
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, tmp_path / "doctrees", ".", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, "")
    pages = {shown(path) for path in tracked() if path.suffix == ".md"} - LEFT_OUT
    site = tmp_path / "site"
    assert {name for name in pages if not (site / name).with_suffix(".html").exists()} == set()
    # neither a page nor its search asks another site
    for path in site.rglob("*.html"):
        asked = re.findall(r"<(?:script|link|img)\b[^>]*(?:src|href)=\"(https?:[^\"]*)", path.read_text())
        assert not asked, path
    assert "slot1" in (site / "searchindex.js").read_text()
