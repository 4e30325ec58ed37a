"""Each alert fires for its fault, and none in a healthy pool; each failure of OPERATIONS has one."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fetchwork.agent.metrics import EVENTS

ROOT = Path(__file__).parents[2]
RULES = ROOT / "config-examples/monitoring/alerts.yml"
OPERATIONS = ROOT / "fetchwork/agent/OPERATIONS.md"
#: paragraphs that need no alert
QUIET = (
    "Chains",
    # no failures
    "Suspended jobs",
    "A dynamic slot asks twice",
    "condor_off, condor_vacate",
    "Supported servers",
    "PgBouncer",
    "Statements in PostgreSQL",
    "Upgrades",
    "Backup and restore",
    "The cost of agents",
    "The agent's memories",
    "The needs of one agent",
    "More than one server",
    "Try it before",
    "starter_ended_job",
    "A PREPARE_JOB of the site",
    # doctor says it
    "A change of the host file",
)
EXPORTER = 'instance="db:9117",job="fetchwork"'
AGENT = 'instance="ep1:9118",job="fetchwork-agent"'
#: the samples of a healthy pool, each minute
HEALTHY = {
    f"up{{{EXPORTER}}}": "1x200",
    f"up{{{AGENT}}}": "1x200",
    f"DatabaseUp{{{EXPORTER}}}": "1x200",
    f'DatabaseUp{{{AGENT},database="main"}}': "1x200",
    f"DatabaseLatency_seconds{{{EXPORTER}}}": "0.002x200",
    f"EventGaps_total{{{EXPORTER}}}": "0x200",
    f"OffersWait{{{EXPORTER}}}": "0x200",
    f"NotificationQueue_ratio{{{EXPORTER}}}": "0.1x200",
    f'OldestIdleJob_seconds{{{EXPORTER},queue="default"}}': "30x200",
    f'QueuePaused{{{EXPORTER},queue="default"}}': "0x200",
    f'TotalSlots{{{EXPORTER},state="Unclaimed",activity="Idle"}}': "3x200",
    f'JobsHeld_total{{{EXPORTER},code="6"}}': "0+1x200",
    f'JobsEvicted_total{{{EXPORTER},outcome="lost"}}': "5x200",
    f'JobsEvicted_total{{{EXPORTER},outcome="could_not_start"}}': "0+1x200",
    f"HostsSilent{{{EXPORTER}}}": "0x200",
    f"BlackHoles{{{EXPORTER}}}": "0x200",
    f"HostsCopied{{{EXPORTER}}}": "0x200",
    f"PoliciesRest{{{EXPORTER}}}": "0x200",
    f"HostsAlive{{{EXPORTER}}}": "10x200",
    f"SpooledReports{{{AGENT}}}": "0x200",
    f"SpoolFree_ratio{{{AGENT}}}": "0.5x200",
    f'HookRequests_total{{{AGENT},hook="fetch_work",outcome="offered"}}': "0+60x200",
    f'HookRequests_total{{{AGENT},hook="fetch_work",outcome="failed"}}': "0+1x200",
    f'HookTime_seconds_bucket{{{AGENT},hook="job_exit",le="0.1"}}': "0+60x200",
    f'HookTime_seconds_bucket{{{AGENT},hook="job_exit",le="5.0"}}': "0+60x200",
    f'HookTime_seconds_bucket{{{AGENT},hook="job_exit",le="+Inf"}}': "0+60x200",
    f"WaitingFetches{{{AGENT}}}": "3x200",
    f"MaxWaitingFetches{{{AGENT}}}": "64x200",
    f'LogWarnings_total{{{AGENT},event="autocluster_ended_matchmaker"}}': "2x200",
    # two hours ago
    f'LastLogWarning_timestamp_seconds{{{AGENT},event="host_taken"}}': "4000x200",
}


def often(event: str) -> dict[str, str]:
    """An agent that logs a warning each minute."""
    return {f'LogWarnings_total{{{AGENT},event="{event}"}}': "1+1x200"}


def once(event: str) -> dict[str, str]:
    """An agent that logged a warning once, in the 170th minute, and never before."""
    return {
        f'LogWarnings_total{{{AGENT},event="{event}"}}': "_x170 1x30",
        f'LastLogWarning_timestamp_seconds{{{AGENT},event="{event}"}}': "_x170 10200x30",
    }


#: the samples that make each alert fire within 200 minutes
FIRING: dict[str, dict[str, str]] = {
    "FetchworkExporterDown": {f"up{{{EXPORTER}}}": "0x200"},
    "FetchworkDatabaseDown": {f"DatabaseUp{{{EXPORTER}}}": "0x200"},
    "FetchworkDatabaseSlow": {f"DatabaseLatency_seconds{{{EXPORTER}}}": "1.5x200"},
    "FetchworkOffersWait": {f"OffersWait{{{EXPORTER}}}": "2x200"},
    "FetchworkNotificationsStopped": {f"NotificationQueue_ratio{{{EXPORTER}}}": "0.6x200"},
    "FetchworkEventsMissed": {f"EventGaps_total{{{EXPORTER}}}": "0x180 1x20"},
    "FetchworkJobsWaitBesideFreeSlots": {f'OldestIdleJob_seconds{{{EXPORTER},queue="default"}}': "3601x200"},
    "FetchworkManyJobsHeld": {f'JobsHeld_total{{{EXPORTER},code="6"}}': "0+5x200"},
    "FetchworkRunsLost": {f'JobsEvicted_total{{{EXPORTER},outcome="lost"}}': "0+1x200"},
    "FetchworkJobsFailToStart": {f'JobsEvicted_total{{{EXPORTER},outcome="could_not_start"}}': "0+3x200"},
    "FetchworkHostsSilent": {f"HostsSilent{{{EXPORTER}}}": "1x200"},
    "FetchworkBlackHole": {f"BlackHoles{{{EXPORTER}}}": "1x200"},
    "FetchworkHostCopied": {f"HostsCopied{{{EXPORTER}}}": "1x200"},
    "FetchworkPoliciesRest": {f"PoliciesRest{{{EXPORTER}}}": "1x200"},
    "FetchworkNoHosts": {f"HostsAlive{{{EXPORTER}}}": "0x200"},
    "FetchworkAgentDown": {f"up{{{AGENT}}}": "0x200"},
    "FetchworkAgentCutOff": {f'DatabaseUp{{{AGENT},database="main"}}': "0x200"},
    "FetchworkSpoolGrows": {f"SpooledReports{{{AGENT}}}": "101x200"},
    "FetchworkHooksFail": {f'HookRequests_total{{{AGENT},hook="fetch_work",outcome="failed"}}': "0+9x200"},
    "FetchworkHooksSlow": {f'HookTime_seconds_bucket{{{AGENT},hook="job_exit",le="0.1"}}': "0+50x200"},
    "FetchworkWaitingFetchesFull": {f"WaitingFetches{{{AGENT}}}": "64x200"},
    "FetchworkHostTaken": once("host_taken"),
    "FetchworkSchema": once("schema"),
    "FetchworkOrphans": once("orphan"),
    "FetchworkRootPartEnded": once("root_part_ended"),
    "FetchworkMatchmakerEnded": often("autocluster_ended_matchmaker"),
    "FetchworkJobsOverMemory": often("over_memory"),
    "FetchworkJobsOverDisk": often("over_disk"),
    "FetchworkSpoolRejects": once("spool_rejected"),
    "FetchworkOutputsLate": once("outputs_late"),
    "FetchworkCacheNotWritten": once("cache_not_written"),
    "FetchworkSlotUnknown": once("slot_unknown"),
    "FetchworkSpoolDiskFull": {f"SpoolFree_ratio{{{AGENT}}}": "0.04x200"},
}


def alerts() -> dict[str, str]:
    """The alerts, by name, and their references to OPERATIONS."""
    parts = RULES.read_text(encoding="utf-8").split("- alert: ")[1:]
    return {
        part.partition("\n")[0]: " ".join(re.findall(r'^ +operations: "(.*)"$', part, re.M)) for part in parts
    }


def paragraphs() -> list[str]:
    """The beginnings of OPERATIONS' paragraphs about hosts and the database."""
    text = OPERATIONS.read_text(encoding="utf-8").partition("## On a host")[2]
    return re.findall(r"^\*\*(.+?)(?:\*\*|$)", text, re.M)


def test_what_operations_describes_has_an_alert() -> None:
    named = [begin.strip() for text in alerts().values() for begin in text.split(";") if begin.strip()]
    begins = [re.sub(r"`", "", paragraph) for paragraph in paragraphs()]
    assert len(begins) > 25
    told = [begin for begin in begins if begin.startswith(tuple(named))]
    quiet = [begin for begin in begins if begin.startswith(QUIET)]
    assert sorted(told + quiet) == sorted(begins)
    # and every reference leads to a paragraph
    assert [name for name in named if not any(begin.startswith(name) for begin in begins)] == []


def test_every_alert_is_tried() -> None:
    assert set(FIRING) == set(alerts())


def test_an_agent_counts_the_events_that_alerts_are_about_and_logs_them() -> None:
    named = re.findall(r'event=~?"([^"]+)"', RULES.read_text(encoding="utf-8"))
    events = {event for names in named for event in names.split("|")}
    assert len(events) > 8
    assert events <= EVENTS
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "fetchwork").rglob("*.py"))
    # beside the list of metrics itself
    assert [event for event in EVENTS if source.count(f'"{event}"') < 2] == []


@pytest.mark.slow
def test_each_alert_fires_for_what_it_is_about_and_none_in_a_healthy_pool(
    promtool: Path, tmp_path: Path
) -> None:
    def tried(name: str, series: dict[str, str], firing: bool) -> dict[str, Any]:
        counted = f'count(ALERTS{{alertstate="firing",alertname=~"{name}"}}) by (alertname)'
        sample = {"labels": f'{{alertname="{name}"}}', "value": 1}
        return {
            "name": name,
            "interval": "1m",
            "input_series": [{"series": one, "values": values} for one, values in series.items()],
            "promql_expr_test": [
                {"expr": counted, "eval_time": "190m", "exp_samples": [sample] if firing else []}
            ],
        }

    tests = [tried(name, HEALTHY | what, True) for name, what in FIRING.items()]
    tests.append(tried(".*", HEALTHY, False))
    told = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    # JSON is YAML
    (tmp_path / "tests.yml").write_text(json.dumps(told))
    done = subprocess.run([promtool, "test", "rules", tmp_path / "tests.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
