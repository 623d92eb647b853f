"""What clients may send: one model per body. Both spellings of a name are taken, unknown names are refused."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator
from pydantic.alias_generators import to_camel

from pilothouse.core.auth.principals import DEFAULT_SCOPES, Scope

Name = Annotated[str, Field(min_length=1, max_length=1000)]
MAX_VERSION = 1 << 53
Version = Annotated[int, Field(strict=True, ge=1, le=MAX_VERSION)]


def like(**example: Any) -> ConfigDict:
    """With an example of a body."""
    return ConfigDict(json_schema_extra={"examples": [example]})


class Body(BaseModel):
    """Base of all bodies."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class SubmitPlan(Body):
    """A plan, as data (``plan``) or as the text of a plan file (``text``)."""

    plan: dict[str, Any] | None = Field(
        default=None, description="The plan document.", examples=[{"name": "hello", "jobs": [{"id": "a", "task": "t"}]}]
    )
    text: str | None = Field(default=None, description="A plan file: YAML or JSON.")
    repo_path: Name | None = Field(default=None, description="An absolute path; goes before the plan's own.")
    update_checkout: StrictBool = Field(default=False, description="Move a clean checkout of the target branch along.")
    register_repo: StrictBool = Field(default=False, description="Register the repository too (Unix socket only).")

    @model_validator(mode="after")
    def _one_of_both(self) -> SubmitPlan:
        if (self.plan is None) == (self.text is None):
            raise ValueError("give either plan or text")
        return self


class Noted(Body):
    """Why something is changed, and in which message of which conversation it was asked for."""

    why: str = Field(default="", max_length=2000)
    chat_id: Name | None = None
    message_id: Name | None = None


class CreateWorkflow(Noted):
    """A document (``workflow``), or a plan to begin with: data (``plan``) or the text of a plan file (``text``)."""

    workflow: dict[str, Any] | None = Field(default=None, description="The document.", examples=[{"name": "hello"}])
    plan: dict[str, Any] | None = Field(default=None, description="A plan document.")
    text: str | None = Field(default=None, description="A plan file: YAML or JSON.")

    @model_validator(mode="after")
    def _one_of_three(self) -> CreateWorkflow:
        if [self.workflow, self.plan, self.text].count(None) != 2:
            raise ValueError("give either workflow, plan or text")
        return self


class ChangeWorkflow(Noted):
    version: Version = Field(description="The version that is changed; when another stands by now, nothing is.")


class ReplaceWorkflow(ChangeWorkflow):
    workflow: dict[str, Any] = Field(description="The document.", examples=[{"name": "hello", "blocks": []}])


class EditWorkflow(ChangeWorkflow):
    operations: list[dict[str, Any]] = Field(
        description="Done in this order, all or none.",
        examples=[[{"op": "connect", "source": "build", "target": "test"}]],
    )


class RevertWorkflow(ChangeWorkflow):
    model_config = like(version=3, to=1, why="The second block was a mistake")

    to: Version = Field(description="The version to go back to.")


class RunWorkflow(Body):
    """How to run a workflow; nothing needs to be said."""

    model_config = like(repoPath="/home/ann/project")

    version: Version | None = Field(default=None, description="The one that stands when left out.")
    repo_path: Name | None = Field(default=None, description="An absolute path; goes before the workflow's own.")
    update_checkout: StrictBool = Field(default=False, description="Move a clean checkout of the target branch along.")


class RetryPlan(Body):
    """Which nodes or groups to try again; none named: all that failed. ``fresh``: from the first phase on."""

    model_config = like(nodes=["test"])

    nodes: list[Name] = Field(default=[], max_length=100_000)
    fresh: StrictBool = False


class RetryNode(Body):
    model_config = like(fresh=True)

    fresh: StrictBool = False


class CancelGroup(Body):
    group: Name = Field(description="A group's path or id.", examples=["build/linux"])


class StopEverything(Body):
    model_config = like(sessionId="0192f0c0-…")

    session_id: Name | None = Field(default=None, description="Only the runs of this session.")


class AnswerWait(Body):
    model_config = like(answer="approve")

    answer: Name = Field(description="One of the wait's options.")
    arguments: dict[str, Any] | None = Field(default=None, description="What a tool is to be called with instead.")
    message: str = Field(default="", max_length=100_000, description="Told to whoever asked.")


class RegisterRepo(Body):
    model_config = like(path="/home/ann/project")

    path: Name = Field(description="Any folder of the repository, as an absolute path.")


class CreateKey(Body):
    model_config = like(name="nightly", user="ann", scopes=["run"])

    name: Name = Field(description="What it is for, as lists show it.")
    user: Name | None = Field(default=None, description="Who whoever shows it is; who asks when left out.")
    scopes: list[Name] = Field(default=[*DEFAULT_SCOPES], description=f"Some of {', '.join(Scope)}.")


class AddCredential(Body):
    """A value for ``{{NAME}}`` (``name``), or a key that was made at a service (``service``)."""

    name: Name | None = Field(default=None, description="What stands between the braces.", examples=["API_KEY"])
    service: Name | None = Field(default=None, description="The service whose key it is.")
    account: Name | None = Field(default=None, description="Which account of the service; `default` when left out.")
    value: str = Field(min_length=1, max_length=65_536, repr=False, description="Never comes back.")

    @model_validator(mode="after")
    def _one_of_both(self) -> AddCredential:
        if (self.name is None) == (self.service is None):
            raise ValueError("give either name or service")
        if self.account is not None and self.service is None:
            raise ValueError("an account is of a service")
        return self


class ConnectAccount(Body):
    service: Name = Field(examples=["slack"])
    account: Name | None = Field(default=None, description="What to call it; as the service does when left out.")
    redirect_uri: Name | None = Field(default=None, description="Where the caller listens, on the loopback interface.")


class ConnectedAccount(Body):
    model_config = like(state="…", code="…")

    state: Name
    code: Annotated[str, Field(min_length=1, max_length=4000, repr=False)]


class Login(Body):
    model_config = like(token="…")

    token: Annotated[str, Field(min_length=1, max_length=200)]
