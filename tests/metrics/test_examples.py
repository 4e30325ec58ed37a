"""The alert rules and the board use metrics that exist; Prometheus's own tool accepts the rules."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fetchwork.pool.cache import cached
from tests.metrics.names import documented

EXAMPLES = Path(__file__).parents[2] / "config-examples/monitoring"
#: words of PromQL in the examples that are no metrics
_WORDS = {
    "sum", "by", "on", "and", "unless", "rate", "increase", "topk", "max", "histogram_quantile", "up",
    "instance", "queue", "code", "hook", "le", "state", "activity", "submitter", "ending", "outcome",
    "event", "time",
}  # fmt: skip


def names(expression: str) -> set[str]:
    """The metrics that an expression names."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^]]*\]', " ", expression)
    found = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", bare)) - _WORDS
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in found}


def board_expressions() -> list[str]:
    board = json.loads((EXAMPLES / "grafana.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def rule_expressions() -> list[str]:
    text = (EXAMPLES / "alerts.yml").read_text()
    return re.findall(r"^ +expr: (?:>-\n)?((?:.|\n)*?)(?=\n +(?:for|labels):)", text, re.M)


def test_every_metric_of_the_board_exists() -> None:
    used = {name for expression in board_expressions() for name in names(expression)}
    assert len(used) > 15
    assert used <= documented()


def test_every_metric_of_the_alert_rules_exists() -> None:
    expressions = rule_expressions()
    assert len(expressions) == (EXAMPLES / "alerts.yml").read_text().count("- alert: ")
    used = {name for expression in expressions for name in names(expression)}
    assert used <= documented()


def test_the_panels_of_the_board_do_not_overlap() -> None:
    panels = json.loads((EXAMPLES / "grafana.json").read_text())["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels) == len({panel["id"] for panel in panels})
    assert len({panel["title"] for panel in panels}) == len(panels)


@pytest.mark.slow
def test_prometheus_accepts_the_configuration_and_its_rules(promtool: Path) -> None:
    done = subprocess.run(
        [promtool, "check", "config", "prometheus.yml"], cwd=EXAMPLES, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(rule_expressions())} rules found" in done.stdout, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("expression", board_expressions())
def test_prometheus_accepts_the_expressions_of_the_board(
    promtool: Path, tmp_path: Path, expression: str
) -> None:
    rule = {"groups": [{"name": "board", "rules": [{"record": "x", "expr": expression}]}]}
    # JSON is YAML
    (tmp_path / "rules.yml").write_text(json.dumps(rule))
    done = subprocess.run(
        [promtool, "check", "rules", tmp_path / "rules.yml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.all
@pytest.mark.slow
def test_the_board_is_of_grafana_s_own_types(tmp_path: Path) -> None:
    # a real Grafana is in no registry that we use; its types of a dashboard are, and know each field
    def install(directory: Path) -> None:
        packages = ["@grafana/schema@11.6.16", "typescript@5.9.3"]
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", *packages]
        subprocess.run(words, cwd=directory, check=True, timeout=300)

    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("no npm, which brings Grafana's types")
    try:
        modules = cached("grafana-schema", install) / "node_modules"
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no types of Grafana: {error}")
    (tmp_path / "node_modules").symlink_to(modules)
    types = "./node_modules/@grafana/schema/dist/esm/raw/dashboard/x/dashboard_types.gen"
    board = (EXAMPLES / "grafana.json").read_text()

    def problems(board: str) -> str:
        (tmp_path / "board.ts").write_text(
            f"import type {{ Dashboard }} from '{types}';\nexport const board: Dashboard = {board};\n"
        )
        options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "esnext"]
        command = ["node_modules/.bin/tsc", *options, "--moduleResolution", "bundler", "board.ts"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout

    assert problems(board) == ""
    # the check would find a misspelt field
    assert "gridpos" in problems(board.replace('"gridPos"', '"gridpos"'))
