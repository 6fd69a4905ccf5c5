"""What stands beside the code agrees with it: versions, make targets, workflows, links, lengths."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import effx
from tools import release_check

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TEMPLATES = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
PAGES = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "compat/distribution/README.md",
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CLASSIFIED = [
    m[1]
    for c in PROJECT["classifiers"]
    if (m := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", c))
]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def make_targets() -> set[str]:
    """The targets that the Makefile has."""
    return set(re.findall(r"^([a-z][\w-]*):(?!=)", read("Makefile"), re.MULTILINE))


def read_recipe(target: str) -> str:
    """What a target needs and runs."""
    match = re.search(rf"^{target}:.*\n(?:\t.*\n)*", read("Makefile"), re.MULTILINE)
    assert match is not None, target
    return match[0]


# --- versions -------------------------------------------------------------------------------------


def test_the_version_is_stated_once() -> None:
    """`effx/version.py` states it, packaging reads it there, and what has to repeat it agrees."""
    assert "version" in PROJECT["dynamic"]
    assert effx.__version__ == release_check.read_version()
    assert re.findall(r"^version: (.+)$", read("CITATION.cff"), re.MULTILINE) == [effx.__version__]
    newest = re.search(r"^## \[(.+?)\]", read("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == effx.__version__
    # The README names none, so that it cannot be stale.
    assert not re.search(r"effx(?:==| v?)\d+\.\d+", read("README.md"))


def test_pythons_agree() -> None:
    """The versions of Python: classifiers, README, what CI tests, what a release is tried with."""
    oldest, newest = CLASSIFIED[0], CLASSIFIED[-1]
    assert PROJECT["requires-python"] == f">={oldest}"
    assert f"Python {oldest} to {newest}" in read("README.md")
    assert set(CLASSIFIED) <= set(release_check.PYTHONS)
    matrix = re.search(r"python: \[(.+)\]", read(".github/workflows/ci.yml"))
    assert matrix is not None
    assert re.findall(r"[\d.]+", matrix[1]) == CLASSIFIED


def test_the_citation_has_what_the_format_requires() -> None:
    """The Citation File Format 1.2.0 requires four keys, and effx is cited by its authors together."""
    text = read("CITATION.cff")
    keys = dict(re.findall(r"^([a-z-]+): ?(.*)$", text, re.MULTILINE))
    assert keys["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= keys.keys()
    assert keys["license"] == PROJECT["license"]
    assert re.search(r"^authors:\n  - name: The effx authors$", text, re.MULTILINE)


# --- what runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [*WORKFLOWS, ROOT / "CONTRIBUTING.md", ROOT / ".github/PULL_REQUEST_TEMPLATE.md"],
    ids=lambda p: p.name,
)
def test_make_targets_that_are_named_exist(path: Path) -> None:
    """Each `make target` of a page or workflow is one of the Makefile's."""
    named = set(
        re.findall(
            r"(?:run: |`|^)(?:\w+=\S+ )?make ([a-z][a-z-]*)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    assert named
    assert named <= make_targets()


def test_every_target_for_people_has_a_help_line() -> None:
    """`make help` lists what has an environment of its own."""
    own = {t for t in make_targets() if re.search(rf"^{t}: \.venv-", read("Makefile"), re.MULTILINE)}
    helped = set(re.findall(r'@echo "make ([a-z-]+)', read("Makefile")))
    assert own <= helped
    assert helped <= make_targets()


def test_pre_commit_runs_what_make_style_runs() -> None:
    """The hook is a make target that runs `style`, which runs ruff and the count of Any."""
    entries = re.findall(
        r"entry: make --no-print-directory ([a-z]+)$", read(".pre-commit-config.yaml"), re.MULTILINE
    )
    assert entries == ["lint"]
    assert re.search(r"\$\(MAKE\).* style\b", read_recipe("lint"))
    for command in ("ruff check", "ruff format --check", "tools/count_any.py"):
        assert command in read_recipe("style")


def test_ci_runs_tests_pages_and_release() -> None:
    """Pull requests are checked by three targets."""
    commands = re.findall(r"run: make ([a-z-]+)", read(".github/workflows/ci.yml"))
    assert commands == ["test", "docs", "release-check"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_workflows_have_few_rights_and_pinned_actions(path: Path) -> None:
    """Reading is all that a workflow may do, except to prove to PyPI who it is; actions are pinned to commits."""
    text = path.read_text(encoding="utf-8")
    assert re.search(r"^permissions:\n  contents: read\n\n", text, re.MULTILINE)
    assert set(re.findall(r"^ +([\w-]+): write$", text, re.MULTILINE)) <= {"id-token"}
    actions = re.findall(r"uses: (.+)$", text, re.MULTILINE)
    assert actions
    assert all([re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", action) for action in actions])
    assert text.count("persist-credentials: false") == text.count("actions/checkout@")
    assert text.count("timeout-minutes:") == text.count("runs-on:")


# --- what people read -----------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    """Each relative link and picture is there."""
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", read(page))
    assert [t for t in targets if not ((ROOT / page).parent / t).exists()] == []


@pytest.mark.parametrize(("page", "lines"), [("README.md", 120), ("CHANGELOG.md", 60)])
def test_first_pages_are_short(page: str, lines: int) -> None:
    """Whoever comes first reads these whole."""
    assert len(read(page).splitlines()) <= lines


def test_contributing_is_short() -> None:
    """It is read before the first change."""
    assert len(read("CONTRIBUTING.md").split()) <= 1300


def test_pictures_are_small() -> None:
    """What the README shows loads at once."""
    assert all([path.stat().st_size < 60_000 for path in (ROOT / "docs/images").iterdir()])


@pytest.mark.parametrize("path", [p for p in TEMPLATES if p.name != "config.yml"], ids=lambda p: p.name)
def test_issue_forms_have_what_the_site_requires(path: Path) -> None:
    """A form has a name, a description and fields with labels of their own; whoever reports says which versions."""
    text = path.read_text(encoding="utf-8")
    keys = re.findall(r"^(\w+):", text, re.MULTILINE)
    assert keys == ["name", "description", "labels", "body"]
    identifiers = re.findall(r"^    id: (\w+)$", text, re.MULTILINE)
    labels = re.findall(r"^      label: (.+)$", text, re.MULTILINE)
    assert text.count("  - type: ") == len(set(identifiers)) == len(set(labels)) > 0
    if path.name != "feature.yml":
        assert "import sys, platform, numpy, jaxlib.version, effx" in text
