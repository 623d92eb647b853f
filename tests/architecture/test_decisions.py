"""The index of decisions lists every page there is, and none that is not."""

from __future__ import annotations

import re
from pathlib import Path

DECISIONS = Path(__file__).parents[2] / "docs" / "decisions"


def test_every_decision_page_is_in_the_index_and_every_entry_is_a_page() -> None:
    pages = {page.name for page in DECISIONS.glob("*.md")} - {"README.md"}
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (DECISIONS / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(pages)
