"""What a person reads who made a mistake: the exact words for every kind of it."""

# One case per line reads best, however long the line.
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.plan.spec_parse import parse_plan, plan_from_data
from pilothouse.errors import BadInput


def refusal(data: object) -> BadInput:
    with pytest.raises(BadInput) as caught:
        plan_from_data(data)
    return caught.value


def plan(**fields: object) -> dict[str, object]:
    return {"name": "p", "jobs": [{"producerId": "a", "task": "t"}], **fields}


def job(**fields: object) -> dict[str, object]:
    return {"name": "p", "jobs": [{"producerId": "a", "task": "t", **fields}]}


def shell(**fields: object) -> dict[str, object]:
    return job(work={"type": "shell", "command": "ls", **fields})


KNOWN_GROUP_FIELDS = "known fields: 'name', 'jobs', 'groups'"
GROUP_NAME = "is not a group name (use plain words without '/', '\\' and surrounding spaces)"
PRODUCER_ID = "is not an id (use 1 to 64 of a-z, 0-9 and '-', beginning with a letter or digit)"
BRANCH = "is not a branch name (use a name git accepts, such as 'feature/search')"
OUTSIDE = "leads outside (give a relative path without '..')"
NO_ADDRESS = (
    "is not an address an agent may be given "
    "(use http://host/path or https://host/path, without credentials; '*.host' stands for its subdomains)"
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "plan.yaml is empty (give a plan with 'name' and 'jobs')"),
        ("# nothing yet\n", "plan.yaml is empty (give a plan with 'name' and 'jobs')"),
        ("- a\n- b\n", "plan.yaml is not a mapping of fields (begin with 'name:' and 'jobs:')"),
        ("just words", "plan.yaml is not a mapping of fields (begin with 'name:' and 'jobs:')"),
    ],
)
def test_a_file_that_is_no_plan_at_all(content: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_plan(content, source="plan.yaml")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "must be a mapping of fields, not nothing"),
        ({"name": "p"}, "jobs: is missing or empty (add at least one job)"),
        ({"name": "p", "jobs": []}, "jobs: is missing or empty (add at least one job)"),
        ({"jobs": [{"producerId": "a", "task": "t"}]}, "name: is required"),
        (plan(name=" "), "name: must not be blank"),
        (plan(name="x" * 201), "name: must have at most 200 characters, has 201"),
        (plan(name="a\nb"), "name: must be one line of plain text, has '\\n' (remove that character)"),
        (plan(name="a\u202eb"), "name: must be one line of plain text, has '\\u202e' (remove that character)"),
        (plan(jobs=3), "jobs: must be a list, not the number 3 (write it as [a, b])"),
        (plan(jobs=["a"]), "jobs[0]: must be a mapping of fields, not the text 'a'"),
        (plan(maxParallel=1025), "maxParallel: must be at most 1024, is 1025"),
        (plan(maxParallel=-1), "maxParallel: must be at least 0, is -1"),
        (plan(maxParallel="4"), "maxParallel: must be a whole number, not the text '4'"),
        (plan(maxParallel=True), "maxParallel: must be a whole number, not true"),
        (plan(startPaused="yes"), "startPaused: must be true or false, not the text 'yes'"),
        (plan(mergeStrategy="rebase"), "mergeStrategy: must be 'squash' or 'merge', not 'rebase'"),
        (plan(base_branch="a", baseBranch="b"), "baseBranch: is given in both spellings with different values (remove one of them)"),
        (plan(maxparallel=1), "maxparallel: unknown field (did you mean 'maxParallel'?)"),
        (plan(steps=[]), "steps: unknown field (did you mean 'jobs'?)"),
        (plan(foo=None), "foo: unknown field (known fields: 'name', 'repoPath', 'baseBranch', 'targetBranch', 'maxParallel', 'mergeStrategy', 'cleanUpSuccessfulWork', 'startPaused', 'env', 'inheritEnv', 'budget', 'permissions', 'approvalTimeout', 'sandbox', 'jobs', 'groups')"),
        (plan(updateCheckout=True), "updateCheckout: is no field of a plan file (give --update-checkout on the command line)"),
        (plan(verifyRi="make"), "verifyRi: verifyRi is not built yet (remove it)"),
        (plan(worktree_init=["npm ci"]), "worktreeInit: worktreeInit is not built yet (remove it)"),
        (plan(additionalSymlinkDirs=["x"]), "additionalSymlinkDirs: additionalSymlinkDirs is not built yet (remove it)"),
        (plan(resumeAfterPlan="x"), "resumeAfterPlan: resumeAfterPlan is not built yet (remove it)"),
        (plan(inheritEnv=["A-B"]), "inheritEnv[0]: 'A-B' is not the name of a variable (use letters, digits and '_', not beginning with a digit)"),
        (plan(env={"1": "x"}), "env['1']: '1' is not the name of a variable (use letters, digits and '_', not beginning with a digit)"),
        (plan(env={"A": True}), "env.A: must be text, not true (put it in quotes)"),
        (plan(env={"A": 1.5}), "env.A: must be text, not the number 1.5 (put it in quotes)"),
        (plan(env={"A": ["x"]}), "env.A: must be text, not a list"),
        (plan(env=["A=1"]), "env: must be a mapping of names to values, not a list"),
        (plan(groups=[{"name": "g"}]), "groups[0]: has neither jobs nor groups (remove it)"),
        (plan(groups=[{"name": "g", "nodes": 1}]), "groups[0].nodes: unknown field (did you mean 'jobs'?)"),
        (plan(groups=[{"name": "g", "color": 1}]), f"groups[0].color: unknown field ({KNOWN_GROUP_FIELDS})"),
        (plan(groups=[{"name": "g", "jobs": [{"producerId": "b", "task": "t"}]}] * 2),
         "groups[1].name: the group 'g' is given twice (join them); "
         "groups[1].jobs[0].producerId: 'g/b' is used already by groups[0].jobs[0] (give every job its own producerId)"),
        (plan(groups=[{"name": "g", "jobs": [{"producerId": "b", "task": "t", "group": "h"}]}]),
         "groups[0].jobs[0].group: the job already stands in a group (remove it)"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_plan(data: object, message: str) -> None:
    assert str(refusal(data)) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (plan(jobs=[{"task": "t"}]), "jobs[0].producerId: is required"),
        (plan(jobs=[{"producerId": "a"}]), "jobs[0].task: is required"),
        (job(task=""), "jobs[0].task: must not be blank"),
        (job(task="x" * 5001), "jobs[0].task: must have at most 5,000 characters, has 5,001"),
        (job(name=["x"]), "jobs[0].name: must be text, not a list"),
        (job(dependson=["b"]), "jobs[0].dependson: unknown field (did you mean 'dependencies'?)"),
        (job(needs=["b"]), "jobs[0].needs: unknown field (did you mean 'dependencies'?)"),
        (job(model="x"), "jobs[0].model: unknown field (it belongs inside work)"),
        (job(autoHeal=True), "jobs[0].autoHeal: autoHeal is not built yet (remove it)"),
        (job(auto_heal=True), "jobs[0].autoHeal: autoHeal is not built yet (remove it)"),
        (job(dependencies="b"), "jobs[0].dependencies: must be a list, not the text 'b' (write it as [a, b])"),
        (job(dependencies=["b"]), "jobs[0].dependencies[0]: there is no job 'b' (valid ids: 'a')"),
        (job(dependencies=["a"]), "jobs[0].dependencies[0]: 'a' depends on itself (remove it)"),
        (job(expectsNoChanges=1), "jobs[0].expectsNoChanges: must be true or false, not the number 1"),
        (job(work=""), "jobs[0].work: must not be blank (remove it, or say what to run)"),
        (job(work=[1]), "jobs[0].work: must be text or a mapping of fields, not a list"),
        (job(work="x" * 50_001), "jobs[0].work: must have at most 50,000 characters, has 50,001 (put it into a script)"),
        (job(prechecks="x" * 10_001), "jobs[0].prechecks: must have at most 10,000 characters, has 10,001 (put it into a script)"),
        (job(work={"command": "ls"}), "jobs[0].work.type: is required (use one of 'process', 'shell', 'agent')"),
        (job(work={"type": "shel", "command": "ls"}), "jobs[0].work.type: there is no work of type 'shel' (did you mean 'shell'?)"),
        (job(work={"type": "tool"}), "jobs[0].work.type: work of type 'tool' is not built yet (use process, shell or agent)"),
        (job(work={"type": "task"}), "jobs[0].work.type: work of type 'task' is not built yet (use process, shell or agent)"),
        (job(work={"type": "process"}), "jobs[0].work.executable: is required"),
        (job(work={"type": "process", "executable": "x", "args": "-l"}), "jobs[0].work.args: must be a list, not the text '-l' (write it as [a, b])"),
        (job(work={"type": "agent", "modelTier": "best"}), "jobs[0].work.modelTier: must be 'fast', 'standard' or 'premium', not 'best'"),
        (job(work={"type": "agent", "model": "m", "modelTier": "fast"}), "jobs[0].work.modelTier: is given beside 'model' (remove one of them)"),
        (job(work={"type": "agent", "model": "--yolo"}), "jobs[0].work.model: '--yolo' reads like an option (give the name of a model)"),
        (job(work={"type": "agent", "instructions": "i", "instructionsFile": "x"}), "jobs[0].work.instructionsFile: is given beside 'instructions' (remove one of them)"),
        (job(work={"type": "agent", "instructionsFile": "../x"}), f"jobs[0].work.instructionsFile: '../x' {OUTSIDE}"),
        (job(work={"type": "agent", "contextFiles": ["/etc/passwd"]}), f"jobs[0].work.contextFiles[0]: '/etc/passwd' {OUTSIDE}"),
        (job(work={"type": "agent", "allowedFolders": ["x"]}), "jobs[0].work.allowedFolders[0]: 'x' is not an absolute path (begin with '/', without '..')"),
        (job(work={"type": "agent", "allowedUrls": ["https://me:pw@host"]}), f"jobs[0].work.allowedUrls[0]: 'https://me:pw@host' {NO_ADDRESS}"),
        (job(work={"type": "agent", "allowedUrls": ["file:///etc"]}), f"jobs[0].work.allowedUrls[0]: 'file:///etc' {NO_ADDRESS}"),
        (job(work={"type": "agent", "maxTurns": 0}), "jobs[0].work.maxTurns: must be at least 1, is 0"),
        (job(work={"type": "agent", "effort": "huge"}), "jobs[0].work.effort: must be 'low', 'medium', 'high' or 'xhigh', not 'huge'"),
        (job(budget={"tokens": 0}), "jobs[0].budget.tokens: must be at least 1, is 0"),
        (job(budget={"cost": -1}), "jobs[0].budget.cost: must be more than 0, is -1"),
        (job(budget={"cost": "much"}), "jobs[0].budget.cost: must be a number, not the text 'much'"),
        (job(budget={"cost": "nan"}), "jobs[0].budget.cost: must be a finite number, not the text 'nan'"),
        (job(budget={"time": 0}), "jobs[0].budget.time: must be at least 1, is 0"),
        (job(budget={"dollars": 1}), "jobs[0].budget.dollars: unknown field (known fields: 'tokens', 'cost', 'time', 'turns')"),
        (job(work={"type": "agent", "script": "../x"}), f"jobs[0].work.script: '../x' {OUTSIDE}"),
        (shell(onFailure={"message": "x"}), "jobs[0].work.onFailure: onFailure is not built yet (remove it)"),
        (shell(shell="powershell"), "jobs[0].work.shell: shell: powershell is not built yet (use 'sh' or 'bash')"),
        (shell(shell="zsh"), "jobs[0].work.shell: must be 'sh' or 'bash', not 'zsh'"),
        (shell(onInterrupted="resume"), "jobs[0].work.onInterrupted: onInterrupted: resume is not built yet (use 'review' or 'rerun')"),
        (shell(timeout="5m"), "jobs[0].work.timeout: must be a whole number, not the text '5m'"),
        (shell(timeout=-1), "jobs[0].work.timeout: must be at least 0, is -1"),
        (job(postchecks={"type": "shell", "command": "ls", "onInterrupted": "review"}),
         "jobs[0].postchecks.onInterrupted: checks are always run again (remove it, or use 'rerun')"),
        (job(work='{"type": "shell", "type": "shell"}'), "jobs[0].work: the JSON in this text: 'type' appears twice in one mapping (remove one of them)"),
        (job(work='{"type": "shell", "command": "a\\u0000b"}'), "jobs[0].work: command: holds a control character ('\\x00') (remove it)"),
        (job(work="echo \0"), "jobs[0].work: holds a control character ('\\x00') (remove it)"),
        (plan(jobs=[{"producerId": "a", "task": "t"}, {"producerId": "b", "task": "t", "dependencies": ["a"], "baseBranch": "x"}]),
         "jobs[1].baseBranch: only a job without dependencies can have its own base (remove it, or the dependencies)"),
        (plan(jobs=[{"producerId": "a", "task": "t", "dependencies": ["b"]}, {"producerId": "b", "task": "t", "dependencies": ["a"]}]),
         "jobs[0].dependencies[0]: jobs depend on each other in a cycle: a → b → a, and no job can start first "
         "(remove one of these dependencies)"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_job(data: object, message: str) -> None:
    assert str(refusal(data)) == message


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "a b", "A", "-a", "", ".", "ä", "a" * 65])
def test_no_producer_id_is_a_path(name: str) -> None:
    assert str(refusal(job(producerId=name))).removesuffix(PRODUCER_ID).startswith("jobs[0].producerId: '")


@pytest.mark.parametrize("name", ["..", "a/../b", "/a", "a/", "a//b", ".", "a\\b", " a", ""])
def test_no_group_leads_out_of_its_place(name: str) -> None:
    message = str(refusal(job(group=name)))
    assert message.startswith("jobs[0].group: ")
    assert message.endswith(GROUP_NAME)


@pytest.mark.parametrize("name", ["..", "a/b", ".", "/", "a\\b"])
def test_no_nested_group_leads_out_of_its_place(name: str) -> None:
    group = {"name": name, "jobs": [{"producerId": "b", "task": "t"}]}
    assert str(refusal(plan(groups=[group]))) == f"groups[0].name: {name!r} {GROUP_NAME}"


@pytest.mark.parametrize("path", ["..", "a/../../b", "/etc", "~", "~root/x"])
def test_no_working_directory_leads_out_of_the_worktree(path: str) -> None:
    assert str(refusal(shell(cwd=path))) == f"jobs[0].work.cwd: {path!r} {OUTSIDE}"


@pytest.mark.parametrize(
    "name",
    ["-x", "--upload-pack=x", "a..b", "a b", "a\tb", "/a", "a/", "a//b", "a.lock", "a/.b", "a~1", "a^", "a:b", "@", "a@{1}", "a*", "x."],
)  # fmt: skip
@pytest.mark.parametrize("field", ["baseBranch", "targetBranch"])
def test_no_branch_is_an_option_a_range_or_a_path(field: str, name: str) -> None:
    assert str(refusal(plan(**{field: name}))) == f"{field}: {name!r} {BRANCH}"


@pytest.mark.parametrize("name", ["main", "feature/search", "v1.0", "release-2", "a.b", "größe", "1f3c9d2"])
def test_usual_names_of_branches_tags_and_commits_are_taken(name: str) -> None:
    assert plan_from_data(plan(baseBranch=name)).base_branch == name


def test_several_mistakes_are_told_at_once_up_to_five_and_the_rest_counted() -> None:
    error = refusal(plan(jobs=[{"producerId": f"J{index}", "task": "t"} for index in range(8)]))
    assert error.field == "jobs[0].producerId"
    assert str(error).count(PRODUCER_ID) == 5
    assert str(error).endswith("; 3 more")


def test_a_long_value_is_shown_in_part() -> None:
    assert len(str(refusal(job(producerId="x" * 10_000)))) < 300


def test_ten_thousand_and_one_jobs_are_too_many() -> None:
    jobs = [{"producerId": f"j{index}", "task": "t"} for index in range(10_001)]
    assert str(refusal(plan(jobs=jobs))) == "jobs: must have at most 10,000 entries, has 10,001"
    spread = plan(jobs=jobs[:5_000], groups=[{"name": "g", "jobs": jobs[5_000:]}])
    assert str(refusal(spread)) == "jobs: must have at most 10,000 entries, has 10,001"


def nested(depth: int) -> dict[str, object]:
    group: dict[str, object] = {"name": "g", "jobs": [{"producerId": "a", "task": "t"}]}
    for _ in range(depth - 1):
        group = {"name": "g", "groups": [group]}
    return {"name": "p", "groups": [group]}


def test_groups_nest_eight_deep_in_either_form() -> None:
    assert plan_from_data(nested(8)).jobs[0].group == plan_from_data(job(group="/".join("g" * 8))).jobs[0].group
    assert "is nested more than 8 groups deep" in str(refusal(nested(9)))
    assert "is nested more than 8 groups deep" in str(refusal(job(group="/".join("g" * 9))))


FIELDS = [
    "name", "jobs", "groups", "env", "producerId", "producer_id", "task", "work", "prechecks", "dependencies", "group",
    "type", "command", "executable", "args", "agent", "cwd", "timeout", "onInterrupted", "autoHeal", "maxParallel", "x",
]  # fmt: skip
anything: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=3)
    | st.sampled_from(["a", "b", "shell", "process", "agent", "tool", "@agent x", '{"type": "shell"}', "review"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner, max_size=5)
        | st.dictionaries(st.integers() | st.none(), inner, max_size=2)
    ),
    max_leaves=30,
)
optional = dict.fromkeys(FIELDS, anything)
kinds = st.sampled_from(["shell", "process", "agent"])
ids = st.sampled_from(["a", "b", "c"])
work = anything | st.builds(
    lambda kind, fields: {**fields, "type": kind}, kinds, st.fixed_dictionaries({}, optional=optional)
)
jobs = st.fixed_dictionaries(
    {"producerId": ids, "task": st.just("t")},
    optional={"work": work, "dependencies": st.lists(ids), "group": anything, "env": anything},
)
nearly_plans = st.builds(
    lambda fields, jobs: {**fields, "name": "p", "jobs": jobs},
    st.fixed_dictionaries({}, optional=optional),
    st.lists(jobs | anything, max_size=4),
)


@given(anything | nearly_plans)
def test_any_data_is_a_plan_or_is_refused_in_printable_words(data: object) -> None:
    try:
        plan_from_data(data)
    except BadInput as error:
        assert str(error).isprintable()
