"""Descriptions and ad files become the database's input; unsupported commands are refused by name."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchwork.classad.ads import parse_expr, parse_old
from fetchwork.errors import SubmitError
from fetchwork.queue.submitting import descriptions as submit
from fetchwork.queue.submitting import jobads, statements, submission
from fetchwork.queue.submitting.unused import Line, unused


def ads(text: str, cluster_id: int = 7, **arguments: Any) -> list[dict[str, Any]]:
    jobs = submit.from_description(text, cluster_id=cluster_id, **arguments)
    return [{**jobs.common, **own} for own in jobs.own]


def test_macros_and_process_numbers_are_expanded_with_the_cluster_given() -> None:
    found = ads(
        """
        executable = /bin/sleep
        seconds = 10
        arguments = $(seconds) $(Process)
        output = out.$(ClusterId).$(ProcId)
        queue 3
        """
    )
    assert [ad["Args"] for ad in found] == ["10 0", "10 1", "10 2"]
    assert [ad["Out"] for ad in found] == ["out.7.0", "out.7.1", "out.7.2"]
    assert {ad["Cmd"] for ad in found} == {"/bin/sleep"}


@pytest.mark.parametrize(
    ("queue", "arguments"),
    [
        ("queue x from (\n1\n2\n)", ["1", "2"]),
        ("queue x,y from (\n1,a\n2,b\n)", ["1", "2"]),
        ("queue 2 x in (a, b c)", ["a", "a", "b", "b", "c", "c"]),
        ("queue x from list.txt", ["from", "file"]),
        ("queue x matching files *.dat", ["one.dat", "two.dat"]),
        ("QUEUE", [""]),
    ],
)
def test_every_form_of_queue_is_understood(
    queue: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.txt").write_text("from\nfile\n")
    Path("one.dat").touch()
    Path("two.dat").touch()
    found = ads(f"executable = /bin/echo\narguments = $(x)\n{queue}\n")
    assert [ad.get("Args", "") for ad in found] == arguments


@pytest.mark.parametrize(
    ("text", "line"),
    [
        # as condor_submit 25.14 does
        ("executable = /bin/true\narguments = 1\nqueue\narguments = 2\nqueue 2\n", 4),
        ("executable = /bin/true\nqueue\nqueue\n", 3),
        ("executable = /bin/true\nqueue x in (\na\n)\n\n# a comment\nx = 1\n", 7),
    ],
)
def test_what_follows_the_queue_statement_is_refused(text: str, line: int) -> None:
    for read in (ads, lambda text: statements.with_commands(text, ["priority = 1"])):
        with pytest.raises(SubmitError, match=f"^line {line}: Extra data found after queue statement"):
            read(text)


def test_comments_and_blank_lines_may_follow_the_queue_statement() -> None:
    assert len(ads("executable = /bin/true\nqueue 2\n\n  # the end\n")) == 2


def test_a_description_without_a_queue_statement_makes_one_job() -> None:
    # as condor_submit 25.14 does
    assert len(ads("executable = /bin/true\n")) == 1
    assert len(ads("executable = /bin/echo\narguments @=end\nqueue 5\n@end\n")) == 1


def test_a_here_document_may_hold_the_word_queue() -> None:
    found = ads("executable = /bin/echo\narguments @=end\nqueue 5\n@end\nqueue 2\n")
    assert len(found) == 2


def test_a_continued_line_is_one_line() -> None:
    assert [ad["Args"] for ad in ads("executable = /bin/echo\narguments = a \\\n  b\nqueue \\\n 1\n")] == [
        "a b"
    ]


def test_the_owner_is_the_one_given() -> None:
    assert [ad["Owner"] for ad in ads("executable = /bin/true\nqueue 2\n", owner="alice")] == ["alice"] * 2


@pytest.mark.parametrize("line", ['+Owner = "bob"', 'MY.Owner = "bob"', 'my.owner = "bob"', '+OWNER = "bob"'])
def test_an_owner_in_the_description_is_refused(line: str) -> None:
    with pytest.raises(SubmitError, match="a job's Owner is its submitter"):
        ads(f"executable = /bin/true\n{line}\nqueue\n", owner="alice")


def test_a_job_submitted_on_hold_says_so() -> None:
    (ad,) = ads("executable = /bin/true\nhold = true\nqueue\n")
    assert ad["JobStatus"] == 5


def test_what_differs_is_small() -> None:
    jobs = submit.from_description("executable = /bin/sleep\narguments = $(Process)\nqueue 3\n", cluster_id=1)
    assert list(jobs.own) == [{}, {"Args": "1"}, {"Args": "2"}]


def test_requests_that_nobody_made_are_numbers() -> None:
    """HTCondor's defaults refer to attributes that only a schedd keeps up to date."""
    (ad,) = ads("executable = /bin/sleep\nqueue\n")
    assert ad["RequestMemory"] >= 1
    assert ad["RequestDisk"] >= 1
    assert isinstance(ad["RequestMemory"], int)


def test_a_request_that_is_an_expression_stays_one() -> None:
    (ad,) = ads("executable = /bin/sleep\nrequest_memory = 1024 * (NumJobStarts + 1)\nqueue\n")
    assert ad["RequestMemory"] == "/Expr(1024 * (NumJobStarts + 1))/"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("nice_user = true", "nice_user"),
        ("machine_count = 4", "machine_count = 4"),
    ],
)
def test_commands_that_leave_no_trace_and_are_not_honoured_are_refused_by_name(
    command: str, told: str
) -> None:
    with pytest.raises(SubmitError, match="can't be honoured") as caught:
        ads(f"executable = /bin/true\n{command}\nqueue\n")
    assert told in str(caught.value)


@pytest.mark.parametrize("command", ["transfer_executable = false", "nice_user = False", "machine_count = 1"])
def test_the_same_commands_pass_where_they_ask_for_nothing(command: str) -> None:
    assert len(ads(f"executable = /bin/true\n{command}\nqueue\n")) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("arguments = 1\nqueue\n", "executable"),
        ("executable = /bin/true\nqueue 0\n", "makes no jobs"),
        ("executable = /bin/true\nblah blah\nqueue\n", "line 2 is not 'command = value': 'blah blah'"),
        (
            "executable = /bin/true\ninclude : nowhere.inc\nqueue\n",
            "line 2 includes 'nowhere.inc', which can't be read: No such file or directory",
        ),
        ("executable = /bin/true\nqueue x from /nonexistent/list\n", "/nonexistent/list"),
        ("executable = /bin/true\nqueue x in (\na\n", "line 2: the items of queue have no closing"),
        ("executable = /bin/true\nif true\nqueue\nendif\n", "line 3: queue inside if"),
        ('executable = /bin/true\narguments = "a \'b"\nqueue\n', "Unbalanced quote"),
        ("executable = /bin/true\n+Foo = (((\nqueue\n", "Foo"),
        ("executable = /bin/true\nuniverse = nonsense\nqueue\n", "nonsense"),
    ],
)
def test_a_wrong_description_is_refused_in_one_line(text: str, told: str) -> None:
    with pytest.raises(SubmitError) as caught:
        ads(text)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_jobs_than_a_cluster_may_have_are_refused_before_they_are_made() -> None:
    jobs = submission.prepared(
        "executable = /bin/true\nqueue 100000000\n", cluster=1, owner="alice", most_jobs=lambda: 1500
    )
    made = iter(jobs.own)
    assert len(list(itertools.islice(made, 1500))) == 1500
    with pytest.raises(SubmitError, match=r"exceed MAX_JOBS_PER_SUBMISSION: .* allowed: 1500 \(setting"):
        next(made)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("executable = /bin/true\narguments = a\0b\nqueue\n", 2),
        ("executable = /bin/true\n#\0\nqueue\n", 2),
        ("executable = /bin/true\nqueue \0 1\n", 2),
        ("executable = /bin/true\nqueue x from (\na\nb\0\n)\n", 4),
        ("executable = /bin/true\nqueue\n\0", 3),
    ],
)
def test_a_nul_is_refused_with_its_line_before_htcondor_hangs_over_it(text: str, line: int) -> None:
    for read in (ads, lambda text: statements.with_commands(text, ["priority = 1"])):
        with pytest.raises(SubmitError) as caught:
            read(text)
        assert str(caught.value) == f"line {line} has a NUL; allowed: text without NUL"


def test_a_nul_in_an_item_is_refused() -> None:
    from htcondor2 import Submit

    made = Submit({"executable": "/bin/echo", "arguments": "$(x)"})
    for items in (["a", "b\0"], [{"x": "\0"}]):
        with pytest.raises(ValueError, match="an item may not hold a line break or a NUL"):
            submission.prepared(made, cluster=3, itemdata=items)


def test_a_misspelt_command_is_noticed_and_a_macro_is_not() -> None:
    text = (
        "executable = /bin/sleep\nargments = 4\nseconds = 3\narguments = $(seconds)\nnotify_user = x\nqueue\n"
    )
    assert unused(text) == [Line("argments", "4", 2)]


def test_what_htcondor_knows_is_used_whatever_it_comes_to() -> None:
    text = "if $(a)\nx = 1\nendif\na = 1\nRequest_Foo = 1\n+Mine = 2\ndotted.name = 3\nRequestMemory = 2\n"
    assert unused(text) == []
    assert unused("include : more\ny = 1\n") == []
    assert unused("y = \\\n1\nz @=end\n  a = 2\n@end\n") == [Line("z", "a = 2", 3), Line("y", "1", 1)]


def test_commands_can_be_added_before_the_queue_statement() -> None:
    before = "executable = /bin/echo\npriority = 1\nqueue x in (\na\nb\n)\n"
    text = statements.with_commands(before, ["priority = 7"])
    assert [ad["JobPrio"] for ad in ads(text)] == [7, 7]


def test_an_executable_that_is_not_there_is_told_as_condor_submit_does(tmp_path: Path) -> None:
    (tmp_path / "there").touch()

    def missing(commands: str) -> str | None:
        jobs = submit.from_description(f"initialdir = {tmp_path}\n{commands}\nqueue 2\n", cluster_id=1)
        return submit.missing_executable(jobs)

    assert missing("executable = /no/such/executable") == (
        "Can't access executable file /no/such/executable: No such file or directory"
    )
    assert missing("executable = /no/such/executable\ntransfer_executable = false") is None
    assert missing(f"executable = {tmp_path}/there") is None
    assert "/not$(Process)" not in str(missing(f"executable = {tmp_path}/not$(Process)"))


# -- ads ------------------------------------------------------------------------------------------------


def test_ads_in_json_and_in_old_syntax_mean_the_same() -> None:
    old = (
        'Cmd = "/bin/true"\nOwner = "alice"\nRequirements = Memory > 4\n\nCmd = "/bin/false"\nOwner = "bob"\n'
    )
    found = jobads.read_ads(old)
    assert found == [
        {"Cmd": "/bin/true", "Owner": "alice", "Requirements": "/Expr(Memory > 4)/"},
        {"Cmd": "/bin/false", "Owner": "bob"},
    ]
    assert jobads.read_ads(json.dumps(found)) == found
    assert jobads.read_ads(json.dumps(found[1])) == [found[1]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1]", "ad 1 is not a JSON object"),
        ("{", "not JSON"),
        ('Cmd = "/bin/true"\nnonsense\n', "ad 1: line 2"),
    ],
)
def test_a_wrong_ad_file_is_refused_with_the_place(text: str, told: str) -> None:
    with pytest.raises(SubmitError, match=told):
        jobads.read_ads(text)


@pytest.mark.parametrize("ad", [{"Cmd": "a\0"}, {"A\0": 1}, {"A": [1, {"B": "\0"}]}, {"A": "\\\0"}])
def test_an_ad_with_a_nul_is_refused_with_its_number(ad: dict[str, Any]) -> None:
    with pytest.raises(
        SubmitError, match=r"^ad 2 has a NUL in a name or a value; allowed: any other character$"
    ):
        submission.prepared([{"Cmd": "/bin/true"}, ad], cluster=1)


def test_an_ad_may_spell_a_nul() -> None:
    ad = {"Args": "\\u0000 \\\\u0000"}
    assert submission.prepared(ad, cluster=1).common == ad


def test_what_ads_have_in_common_keeps_types_apart() -> None:
    jobs = jobads.from_ads([{"A": 1, "B": True, "C": "x"}, {"A": 1.0, "B": 1, "C": "x", "D": None}])
    assert jobs.common == {"C": "x"}
    assert list(jobs.own) == [{"A": 1, "B": True}, {"A": 1.0, "B": 1, "D": None}]


def test_chunks_are_bounded_in_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "MAX_JOBS", 3)
    monkeypatch.setattr(submission, "MAX_BYTES", 40)
    assert [len(chunk) for chunk in submission.chunks([{}] * 7)] == [3, 3, 1]
    assert [len(chunk) for chunk in submission.chunks([{"A": "x" * 30}] * 3)] == [1, 1, 1]


# -- objects of HTCondor's bindings ------------------------------------------------------------------------


@pytest.mark.parametrize("bindings", ["htcondor", "htcondor2"])
def test_a_submit_object_of_either_bindings_is_its_text(bindings: str) -> None:
    import importlib

    made = importlib.import_module(bindings).Submit(
        "executable = /bin/echo\narguments = $(x)\nqueue x in (a, b)\n"
    )
    jobs = submission.prepared(made, cluster=3, owner="alice")
    assert [{**jobs.common, **own}["Args"] for own in jobs.own] == ["a", "b"]


def test_count_and_itemdata_take_the_place_of_the_queue_statement() -> None:
    from htcondor2 import Submit

    made = Submit({"executable": "/bin/echo", "arguments": "$(x) $(y)"})
    assert len(list(submission.prepared(made, cluster=3, count=4).own)) == 4
    items = [{"x": "1, 2", "y": "3"}, {"x": "4", "y": "5"}]
    jobs = submission.prepared(made, cluster=3, itemdata=items)
    assert [{**jobs.common, **own}["Args"] for own in jobs.own] == ["1, 2 3", "4 5"]


def test_an_ad_object_is_taken_as_it_is() -> None:
    ad = parse_old('Cmd = "/bin/true"\nOwner = "bob"\n')
    assert submission.prepared(ad, cluster=1).common == {"Cmd": "/bin/true", "Owner": "bob"}
    assert submission.prepared(ad, cluster=1, owner="alice").common["Owner"] == "alice"


# No "|" and no "include", which let HTCondor's Submit run programs; no digits, which queue that many jobs.
some_text = st.builds(
    lambda text, times: text * times,
    st.text("=$()+-.@#,:[]{}\"'\\;/ \n\t\r\0\x01\x85ü😀aqx", max_size=20),
    st.sampled_from([1, 1, 1, 2, 300]),
)


@settings(deadline=None, max_examples=200)
@given(some_text, some_text, some_text)
def test_any_text_is_jobs_or_a_submit_error_of_one_line(before: str, value: str, after: str) -> None:
    try:
        found = ads(f"executable = /bin/true\n{before}\narguments = {value}\nqueue {after}\n")
    except SubmitError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert json.dumps(found)


@settings(deadline=None, max_examples=200)
@given(some_text, some_text)
def test_any_text_is_ads_or_a_submit_error_of_one_line(before: str, value: str) -> None:
    for text in (before, f"{before}\nCmd = {value}\n"):
        try:
            jobads.read_ads(text)
        except SubmitError as error:
            assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize("time", ["", "deferral_time = 2000000000\n", "cron_hour = 3\n"])
def test_domain_of_the_submitting_machine_is_not_asked_for(time: str) -> None:
    text = f"executable = /bin/true\nshould_transfer_files = NO\n{time}queue\n"
    requirements = ads(text)[0]["Requirements"]
    assert "FileSystemDomain" not in requirements
    assert ("HasJobDeferral" in requirements) is bool(time)
    parse_expr(requirements.removeprefix("/Expr(").removesuffix(")/"))


REGISTRY = "docker://htcondor/mini:9"
IN_REGISTRY = {"WantContainer": True, "WantDockerImage": True, "ContainerImage": REGISTRY}
OF_DOCKER = {"WantContainer": True, "WantDockerImage": True, "DockerImage": "htcondor/mini:9"}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("docker_image = htcondor/mini:9", OF_DOCKER),
        ("universe = vanilla\ndocker_image = htcondor/mini:9", OF_DOCKER),
        ("universe = container\ndocker_image = htcondor/mini:9", OF_DOCKER),
        (f"container_image = {REGISTRY}", IN_REGISTRY),
        (f"universe = vanilla\ncontainer_image = {REGISTRY}", IN_REGISTRY),
        (f"universe = container\ncontainer_image = {REGISTRY}", IN_REGISTRY),
        ("container_image = oras://h/mini:9", {"WantContainer": True, "ContainerImage": "oras://h/mini:9"}),
        # an image that no runtime fetches is transferred
        (
            "container_image = osdf://h/mini:9",
            {"WantContainer": True, "ContainerImage": "mini:9", "TransferInput": "osdf://h/mini:9"},
        ),
        (
            "container_image = /h/mini:9",
            {"WantContainer": True, "ContainerImage": "mini:9", "TransferInput": "/h/mini:9"},
        ),
    ],
)
def test_an_image_makes_a_container_as_in_htcondor(lines: str, says: dict[str, object]) -> None:
    (found,) = ads(f"executable = /bin/sleep\nshould_transfer_files = yes\n{lines}\nqueue\n")
    told = ("WantContainer", "WantDockerImage", "ContainerImage", "DockerImage", "TransferInput")
    assert {name: found[name] for name in told if name in found} == says
    assert found["JobUniverse"] == 5


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            f"docker_image = htcondor/mini:9\ncontainer_image = {REGISTRY}",
            "cannot declare both docker_image and container_image",
        ),
        (
            f"universe = docker\ncontainer_image = {REGISTRY}",
            "docker universe does not allow use of container_image",
        ),
        ("container_image = instance://htcondor/mini:9", "not a valid container image"),
    ],
)
def test_images_that_htcondor_refuses_are_refused_in_its_words(lines: str, told: str) -> None:
    with pytest.raises(SubmitError) as caught:
        ads(f"executable = /bin/sleep\nshould_transfer_files = yes\n{lines}\nqueue\n")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "lines",
    [
        "transfer_executable = true\nwhen_to_transfer_output = NEVER",
        "transfer_input_files = /etc/passwd\nwhen_to_transfer_output = NEVER",
    ],
)
def test_files_that_are_to_travel_and_not_to_travel_are_refused(lines: str) -> None:
    with pytest.raises(SubmitError, match="refuses the description"):
        ads(f"executable = /bin/true\nshould_transfer_files = NO\n{lines}\nqueue\n")


def test_a_job_waits_for_a_host_whose_plugins_move_its_urls() -> None:
    (found,) = ads(
        "executable = /bin/true\nshould_transfer_files = YES\noutput = output\n"
        'transfer_output_remaps = "output=badname://foo/bar"\nqueue\n'
    )
    assert 'stringListIMember("badname",TARGET.HasFileTransferPluginMethods)' in str(found["Requirements"])
