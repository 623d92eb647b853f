"""The plan file as its author writes it: every field, its type and its limits, as pydantic models.

Owns the list of fields, also of those that are known but not built. Knows nothing of defaults across fields or
of the graph: ``spec_parse`` does that. Messages of the checks here are final; those of pydantic's own checks are
put into words by ``spec_errors``.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import PydanticCustomError

from pilothouse.core.plan.problems import quote
from pilothouse.core.plan.spec_work import work_from_string

MAX_JOBS = 10_000
MAX_GROUP_DEPTH = 8
MAX_TIMEOUT_MS = 365 * 24 * 60 * 60 * 1000

_PRODUCER_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_OWN_VARIABLES = "PILOTHOUSE_"
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Control characters, line and paragraph separators, and marks that reorder what is displayed after them.
_NOT_IN_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_URL = re.compile(
    r"https?://(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/%+=@,-]*)?"
)
_NOT_IN_BRANCH = re.compile(r"[\s~^:?*\[\\]")


def wrong(message: str, fix: str = "", at: str = "") -> PydanticCustomError:
    """A problem in final words; ``at`` is the field below the place that is being validated."""
    return PydanticCustomError("plan", "{message}", {"message": message, "fix": fix, "at": at})


def _number_as_text(value: object) -> object:
    # Lossless: a number read from a plan file has exactly one way to be written.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _not_blank(text: str) -> str:
    if not text.strip():
        raise wrong("must not be blank")
    return text


def _one_line(text: str) -> str:
    found = _NOT_IN_LINE.search(text)
    if found:
        raise wrong(f"must be one line of plain text, has {found[0]!r}", "remove that character")
    return _not_blank(text)


def _producer_id(text: str) -> str:
    if not _PRODUCER_ID.fullmatch(text):
        raise wrong(f"{quote(text)} is not an id", "use 1 to 64 of a-z, 0-9 and '-', beginning with a letter or digit")
    return text


def _env_name(text: str) -> str:
    if not _ENV_NAME.fullmatch(text):
        raise wrong(
            f"{quote(text)} is not the name of a variable",
            "use letters, digits and '_', not beginning with a digit",
        )
    return text


def _inherited_name(text: str) -> str:
    if text.upper().startswith(_OWN_VARIABLES):
        raise wrong(f"{quote(text)} never reaches a command", "remove it")
    return _env_name(text)


def _relative_path(text: str) -> str:
    if text.startswith(("/", "~")) or ".." in text.split("/"):
        raise wrong(f"{quote(text)} leads outside", "give a relative path without '..'")
    return _one_line(text)


def _no_option(text: str) -> str:
    if text.startswith("-"):
        raise wrong(f"{quote(text)} reads like an option", "give the name of a model")
    return _one_line(text)


def _folder(text: str) -> str:
    if not text.startswith("/") or ".." in text.split("/"):
        raise wrong(f"{quote(text)} is not an absolute path", "begin with '/', without '..'")
    return _one_line(text)


def _url(text: str) -> str:
    """A host or an address agents may fetch from: only http, nothing a shell or an option parser could take amiss."""
    if not _URL.fullmatch(text):
        raise wrong(
            f"{quote(text)} is not an address an agent may be given",
            "use http://host/path or https://host/path, without credentials; '*.host' stands for its subdomains",
        )
    return text


def _branch(text: str) -> str:
    parts = text.split("/")
    if (
        text.startswith("-")
        or text.endswith(".")
        or text == "@"
        or ".." in text
        or "@{" in text
        or _NOT_IN_BRANCH.search(text)
        or _NOT_IN_LINE.search(text)
        or any(not part or part.startswith(".") or part.endswith(".lock") for part in parts)
    ):
        raise wrong(f"{quote(text)} is not a branch name", "use a name git accepts, such as 'feature/search'")
    return text


def _group_name(text: str) -> str:
    if text != text.strip() or "/" in text or "\\" in text or text in ("", ".", ".."):
        raise wrong(f"{quote(text)} is not a group name", "use plain words without '/', '\\' and surrounding spaces")
    return _one_line(text)


def _group_path(text: str) -> str:
    names = text.split("/")
    for name in names:
        if len(name) > 100:
            raise wrong("has a group name of more than 100 characters")
        _group_name(name)
    if len(names) > MAX_GROUP_DEPTH:
        raise wrong(f"is nested more than {MAX_GROUP_DEPTH} groups deep")
    return text


_Text = BeforeValidator(_number_as_text)
_Line = AfterValidator(_one_line)
_Filled = AfterValidator(_not_blank)

Name = Annotated[str, Field(max_length=200), _Line, _Text]
ProducerId = Annotated[str, AfterValidator(_producer_id), _Text]
Reference = Annotated[str, Field(max_length=1000), _Line, _Text]
Task = Annotated[str, Field(max_length=5_000), _Filled, _Text]
Instructions = Annotated[str, Field(max_length=100_000), _Filled, _Text]
Path = Annotated[str, Field(max_length=4_096), _Line]
RelativePath = Annotated[str, Field(max_length=4_096), AfterValidator(_relative_path)]
Branch = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_branch), _Text]
GroupPath = Annotated[str, AfterValidator(_group_path), _Text]
GroupName = Annotated[str, Field(max_length=100), AfterValidator(_group_name), _Text]
EnvName = Annotated[str, Field(max_length=200), AfterValidator(_env_name)]
InheritedName = Annotated[str, Field(max_length=200), AfterValidator(_inherited_name)]
EnvValue = Annotated[str, Field(max_length=32_768), _Text]
Env = Annotated[dict[EnvName, EnvValue], Field(max_length=500)]
Argument = Annotated[str, Field(max_length=100_000), _Text]
Timeout = Annotated[int, Field(ge=0, le=MAX_TIMEOUT_MS)]
OnInterruptedField = Literal["review", "rerun"]
PermissionsField = Literal["allow", "deny", "ask"]
Folder = Annotated[str, Field(max_length=4_096), AfterValidator(_folder)]
Url = Annotated[str, Field(max_length=2_000), AfterValidator(_url)]


class Fields(BaseModel):
    """Fields in either spelling. Nothing (null) is the same as leaving the field out, and so is a field that is
    not built yet when it asks for nothing."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, frozen=True, strict=True)
    unbuilt: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        known = {to_camel(name) for name in cls.model_fields} | cls.unbuilt
        spelling = {to_snake(name): name for name in known}
        found: dict[str, object] = {}
        given: dict[str, object] = data
        for key, value in given.items():
            name = spelling.get(key, key)
            asks_nothing = value is None or (name in cls.unbuilt and value in (False, [], {}, ""))
            if name in known and asks_nothing:
                continue
            if name in found and found[name] != value:
                raise wrong("is given in both spellings with different values", "remove one of them", at=name)
            found[name] = value
        return found


class ProcessFile(Fields):
    unbuilt = frozenset({"onFailure"})

    type: Literal["process"]
    executable: Path
    args: Annotated[list[Argument], Field(max_length=1_000)] = []
    env: Env = {}
    cwd: RelativePath | None = None
    timeout: Timeout = 0
    on_interrupted: OnInterruptedField | None = None


class ShellFile(Fields):
    unbuilt = frozenset({"onFailure", "errorAction"})

    type: Literal["shell"]
    command: Annotated[str, Field(max_length=50_000), _Filled, _Text]
    shell: Literal["sh", "bash"] = "sh"
    env: Env = {}
    cwd: RelativePath | None = None
    timeout: Timeout = 0
    on_interrupted: OnInterruptedField | None = None


class BudgetFile(Fields):
    tokens: Annotated[int, Field(ge=1)] | None = None
    cost: Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)] | None = None
    time: Annotated[int, Field(ge=1, le=MAX_TIMEOUT_MS)] | None = None
    turns: Annotated[int, Field(ge=1)] | None = None


class SandboxFile(Fields):
    network: Literal["full", "limited", "off"] = "full"
    writable: Annotated[list[Folder], Field(max_length=20)] = []
    readable: Annotated[list[Folder], Field(max_length=20)] = []


class AgentFile(Fields):
    unbuilt = frozenset({"onFailure"})

    type: Literal["agent"]
    agent: Annotated[str, Field(max_length=100), _Line] | None = None
    instructions: Instructions | None = None
    instructions_file: RelativePath | None = None
    context: Instructions | None = None
    context_files: Annotated[list[RelativePath], Field(max_length=100)] = []
    model: Annotated[str, Field(max_length=200), AfterValidator(_no_option), _Text] | None = None
    model_tier: Literal["fast", "standard", "premium"] | None = None
    effort: Literal["low", "medium", "high", "xhigh"] | None = None
    max_turns: Annotated[int, Field(ge=1, le=100)] | None = None
    resume_session: bool = True
    allowed_folders: Annotated[list[Folder], Field(max_length=20)] = []
    allowed_urls: Annotated[list[Url], Field(max_length=50)] = []
    permissions: PermissionsField | None = None
    script: RelativePath | None = None
    env: Env = {}
    timeout: Timeout = 0
    on_interrupted: OnInterruptedField | None = None

    @model_validator(mode="after")
    def _one_source(self) -> AgentFile:
        if self.instructions is not None and self.instructions_file is not None:
            raise wrong("is given beside 'instructions'", "remove one of them", at="instructionsFile")
        if self.model is not None and self.model_tier is not None:
            raise wrong("is given beside 'model'", "remove one of them", at="modelTier")
        return self


_AnyWork = Annotated[ProcessFile | ShellFile | AgentFile, Field(discriminator="type")]


def _work(value: object) -> object:
    return work_from_string(value, 50_000, wrong) if isinstance(value, str) else value


def _check(value: object) -> object:
    return work_from_string(value, 10_000, wrong) if isinstance(value, str) else value


class JobFile(Fields):
    unbuilt = frozenset({"autoHeal"})

    producer_id: ProducerId
    name: Name | None = None
    task: Task
    work: Annotated[_AnyWork, BeforeValidator(_work)] | None = None
    prechecks: Annotated[_AnyWork, BeforeValidator(_check)] | None = None
    postchecks: Annotated[_AnyWork, BeforeValidator(_check)] | None = None
    instructions: Instructions | None = None
    dependencies: Annotated[list[Reference], Field(max_length=MAX_JOBS)] = []
    group: GroupPath | None = None
    expects_no_changes: bool = False
    base_branch: Branch | None = None
    env: Env = {}
    budget: BudgetFile | None = None


class GroupFile(Fields):
    name: GroupName
    jobs: Annotated[list[JobFile], Field(max_length=MAX_JOBS)] = []
    groups: list[GroupFile] = []


class PlanFile(Fields):
    unbuilt = frozenset(["additionalSymlinkDirs", "resumeAfterPlan", "verifyRi", "verifyRiSpec", "worktreeInit"])

    name: Name
    repo_path: Path | None = None
    base_branch: Branch | None = None
    target_branch: Branch | None = None
    max_parallel: Annotated[int, Field(ge=0, le=1024)] | None = None
    merge_strategy: Literal["squash", "merge"] = "squash"
    clean_up_successful_work: bool = True
    start_paused: bool = False
    env: Env = {}
    inherit_env: Annotated[list[InheritedName], Field(max_length=100)] = []
    budget: BudgetFile | None = None
    permissions: PermissionsField = "allow"
    approval_timeout: Timeout | None = None
    sandbox: SandboxFile | None = None
    jobs: Annotated[list[JobFile], Field(max_length=MAX_JOBS)] = []
    groups: list[GroupFile] = []
