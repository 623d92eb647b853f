"""GitHub's tools, against a GitHub on the loopback."""

from __future__ import annotations

import asyncio
import time

import pytest
from starlette.responses import JSONResponse
from tests.support.outside.accounts import Accounts, accounts
from tests.support.outside.github import GitHub, Repo, said


def world() -> GitHub:
    return GitHub(repos={"acme/site": Repo(files={"README.md": b"# Site\n", "src/app.py": b"print('\xc3\xa9')\n"})})


async def issue(at: Accounts, title: str, **more: object) -> int:
    number = (await at.done("github_create_issue", repo="acme/site", title=title, **more))["number"]
    assert isinstance(number, int)
    return number


def test_an_issue_is_opened_found_commented_on_and_read() -> None:
    async def story() -> None:
        async with accounts("github", world()) as at:
            number = await issue(at, "It breaks", body="Always.", labels=["bug"])
            await issue(at, "Other")
            found = await at.done("github_list_issues", repo="acme/site", labels=["bug"])
            assert [(one["number"], one["title"], one["labels"]) for one in found["issues"]] == [
                (number, "It breaks", ["bug"])
            ]
            await at.done("github_comment", repo="acme/site", number=number, body="Seen.")
            read = await at.done("github_get_issue", repo="acme/site", number=number)
            assert (read["body"], read["author"], read["pullRequest"]) == ("Always.", "grace", False)
            assert [one["body"] for one in read["comments"]] == ["Seen."]

    asyncio.run(story())


def test_pull_requests_are_opened_and_listed_and_are_not_issues() -> None:
    async def story() -> None:
        github = world()
        github.repos["acme/site"].branches.add("fix")
        async with accounts("github", github) as at:
            made = await at.done("github_create_pr", repo="acme/site", title="Fix", head="fix", base="main", draft=True)
            await issue(at, "An issue")
            pulls = (await at.done("github_list_prs", repo="acme/site"))["pullRequests"]
            assert [(one["number"], one["head"], one["base"], one["draft"]) for one in pulls] == [
                (made["number"], "fix", "main", True)
            ]
            issues = (await at.done("github_list_issues", repo="acme/site"))["issues"]
            assert [one["title"] for one in issues] == ["An issue"]
            why = await at.refused("github_create_pr", repo="acme/site", title="Fix", head="gone", base="main")
            assert why == "GitHub: Validation Failed (422); PullRequest head invalid"

    asyncio.run(story())


def test_lists_go_over_pages_up_to_what_was_asked_for() -> None:
    async def story() -> None:
        github = world()
        async with accounts("github", github) as at:
            for n in range(130):
                github.repos["acme/site"].issues.append(
                    {"number": n, "title": f"{n}", "state": "open", "labels": [], "user": None}
                )
            github.asked.clear()
            found = await at.done("github_list_issues", repo="acme/site", limit=120)
            assert [one["number"] for one in found["issues"]] == list(range(129, 9, -1))
            assert found["more"] is True
            assert len(github.asked) == 2
            every = await at.done("github_list_issues", repo="acme/site", limit=500)
            assert (len(every["issues"]), every["more"]) == (130, False)

    asyncio.run(story())


def test_files_and_directories_are_read_at_a_revision() -> None:
    async def story() -> None:
        github = world()
        async with accounts("github", github) as at:
            read = await at.done("github_get_file", repo="acme/site", path="/src/app.py", ref="main")
            assert read["content"] == "print('é')\n"
            root = await at.done("github_get_file", repo="acme/site")
            assert [one["name"] for one in root["entries"]] == ["README.md", "src/app.py"]
            assert "404" in await at.refused("github_get_file", repo="acme/site", path="gone")
            assert "404" in await at.refused("github_get_file", repo="acme/site", path="README.md", ref="gone")
            github.repos["acme/site"].files |= {"logo.png": b"\x89\0", "big": b"x" * 300_000}
            assert "no text" in await at.refused("github_get_file", repo="acme/site", path="logo.png")
            assert "300000 bytes" in await at.refused("github_get_file", repo="acme/site", path="big")

    asyncio.run(story())


@pytest.mark.parametrize("repo", ["", "site", "acme/site/..", "../user", "acme/..", "./site", "a/b?c", "a/b#", "a b/c"])
def test_a_repository_is_named_by_owner_and_name_and_nothing_else(repo: str) -> None:
    async def story() -> None:
        github = world()
        async with accounts("github", github) as at:
            github.asked.clear()
            assert (await at.refused("github_list_issues", repo=repo)).startswith("repo: ")
            assert github.asked == []

    asyncio.run(story())


def test_a_path_does_not_leave_its_repository() -> None:
    async def story() -> None:
        github = world()
        async with accounts("github", github) as at:
            github.asked.clear()
            for path in ("../../../user", "src/../../x", "a//b"):
                assert (await at.refused("github_get_file", repo="acme/site", path=path)).startswith("path: ")
            assert github.asked == []
            assert "404" in await at.refused("github_get_file", repo="acme/site", path="what?ref=x#y")

    asyncio.run(story())


def test_limits_of_an_hour_and_of_bursts_are_told_from_things_that_are_forbidden() -> None:
    async def story() -> None:
        github = world()
        async with accounts("github", github) as at:
            reset = str(int(time.time()) + 1800)
            spent = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": reset}
            github.trouble = [JSONResponse({"message": "API rate limit exceeded"}, 403, spent)]
            assert "takes no more requests" in await at.refused("github_list_repos")
            github.trouble = [said("You have exceeded a secondary rate limit.", 403)]
            assert "try again in 60 s" in await at.refused("github_list_repos")
            github.trouble = [said("Resource not accessible by integration", 403)]
            assert await at.refused("github_list_repos") == "GitHub: Resource not accessible by integration (403)"

    asyncio.run(story())
