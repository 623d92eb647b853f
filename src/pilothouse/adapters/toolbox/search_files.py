"""The tool ``search_files``: lines of the workspace that match a pattern.

Git does the searching, in a process of its own that can be ended: a pattern may take for ever, and whoever gave it is
not to be trusted with this one. What git ignores is left out, binary files and links too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from pilothouse.adapters.git.run import Result, Runner
from pilothouse.adapters.toolbox.text import line
from pilothouse.adapters.toolbox.threads import FILES
from pilothouse.adapters.toolbox.workspace import Workspace
from pilothouse.core.tools.parameters import Parameters, read, schema_of
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec, Touches
from pilothouse.errors import BadInput, GitFailed

WITHIN_S = 20.0
MOST_BYTES = 2 << 20
"""Of what git prints."""
MOST_MATCHES = 500
LINE_CHARS = 300

_NO_PERL = "Perl-compatible"
"""In what a git says that was built without such patterns."""


class SearchFiles(Parameters, frozen=True, kw_only=True):
    pattern: Annotated[str, Meta(description="A regular expression, matched line by line.", min_length=1)]
    path: Annotated[str, Meta(description="A file or directory to search, relative to the workspace.")] = "."
    glob: Annotated[str, Meta(description='Only files like this: "*.py", "**/test_*.ts".')] = ""
    literal: Annotated[bool, Meta(description="The pattern is plain text.")] = False
    ignore_case: bool = False
    limit: Annotated[int, Meta(description="Most matches that are answered.", ge=1, le=MOST_MATCHES)] = 100


class SearchFilesTool:
    spec = ToolSpec(
        name="search_files",
        description=(
            "Search the text files of the workspace; answers path, line number and line of each match. Ignored files "
            'are left out. Example: {"pattern": "def main\\\\(", "glob": "*.py"}'
        ),
        parameters=schema_of(SearchFiles),
        touches=Touches.NOTHING,
        of_workspace=True,
        timeout_ms=30_000,
    )

    def __init__(self, git: Runner | None = None) -> None:
        self._git = git or Runner()

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(SearchFiles, arguments)
        if "\0" in given.pattern or "\n" in given.pattern:
            raise BadInput("is matched line by line, so it cannot hold a line break", field="pattern")
        if given.glob.startswith("/") or ".." in given.glob.split("/") or "\0" in given.glob:
            raise BadInput("leads outside of the workspace", field="glob", fix="give a pattern below path")
        workspace = Workspace(context.workspace)
        await FILES.run(lambda _: _check(workspace, given.path))
        given = msgspec.structs.replace(given, path=workspace.relative(given.path))
        found = await self._searched(workspace.root, given)
        matches = [match for match in _matches(found.stdout) if ".git" not in match["path"].lower().split("/")]
        result: dict[str, Any] = {"matches": matches[: given.limit]}
        if found.truncated or len(matches) > given.limit:
            result["more"] = "there are more matches; narrow path, glob or pattern"
        return ToolAnswer(ok=True, result=result)

    async def _searched(self, root: str, given: SearchFiles) -> Result:
        kinds = ("-F",) if given.literal else ("-P", "-E")
        for kind in kinds:
            try:
                return await self._git.run(
                    "grep",
                    "--no-index",
                    "--exclude-standard",
                    "--no-color",
                    "--full-name",
                    "-n",
                    "-I",
                    "-z",
                    f"--max-count={given.limit + 1}",
                    kind,
                    *(("-i",) if given.ignore_case else ()),
                    "-e",
                    given.pattern,
                    "--",
                    _pathspec(given),
                    cwd=root,
                    ok=(0, 1),
                    writes=False,
                    timeout=WITHIN_S,
                    limit=MOST_BYTES,
                )
            except GitFailed as error:
                if kind == "-P" and _NO_PERL in error.stderr:
                    continue
                raise _refused(error) from None
        raise AssertionError("the last kind of pattern either worked or was refused")


def _check(workspace: Workspace, path: str) -> None:
    """Raises ``BadInput`` unless there is such a file or directory inside."""
    try:
        with workspace.directory(path):
            pass
    except BadInput:
        with workspace.file(path):
            pass


def _pathspec(given: SearchFiles) -> str:
    if not given.glob:
        return f":(literal){given.path}"
    inside = "" if given.path == "." else re.sub(r"([*?\[\\])", r"\\\1", given.path) + "/"
    return f":(glob){inside}{given.glob if '/' in given.glob else f'**/{given.glob}'}"


def _matches(printed: bytes) -> Iterator[dict[str, Any]]:
    """``path NUL number NUL line``, one a line; what was cut off in the middle is left out."""
    for raw in printed.split(b"\n"):
        path, _, rest = raw.partition(b"\0")
        number, found, text = rest.partition(b"\0")
        if found and number.isdigit():
            shown = line(text.decode("utf-8", "replace").rstrip("\r"), LINE_CHARS)
            yield {"path": path.decode("utf-8", "replace"), "line": int(number), "text": shown}


def _refused(error: GitFailed) -> BadInput:
    said = error.stderr.strip().removeprefix("fatal: ")
    if "timed out" in said:
        return BadInput("takes too long", field="pattern", fix="narrow path or glob, or use a simpler pattern")
    return BadInput(said[:300] or "git could not search for it", field="pattern", fix="or set literal")
