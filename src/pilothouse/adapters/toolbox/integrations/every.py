"""The tools of all outside services."""

from __future__ import annotations

from typing import Any

from pilothouse.adapters.toolbox.integrations.api import Tokens, Web
from pilothouse.adapters.toolbox.integrations.github import GitHubManners, github_tools
from pilothouse.adapters.toolbox.integrations.gmail import GoogleManners, gmail_tools
from pilothouse.adapters.toolbox.integrations.slack import SlackManners, slack_tools
from pilothouse.adapters.toolbox.integrations.tool import Makes, ServiceTool


def integration_tools(tokens: Tokens, web: Web) -> tuple[ServiceTool[Any], ...]:
    """Slack's, GitHub's and Gmail's. ``web`` is closed by whoever made it."""
    return (
        *slack_tools(Makes(SlackManners(), web, tokens)),
        *github_tools(Makes(GitHubManners(), web, tokens)),
        *gmail_tools(Makes(GoogleManners(), web, tokens)),
    )
