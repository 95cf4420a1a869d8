"""README and docs: links that lead somewhere, commands that exist; and what is installed."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from cogapp import Cog

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, *DOCS, *sorted(ROOT.glob("*/README.md")), *sorted(ROOT.glob("tasks/*/README.md"))]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

each_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    heads = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@each_page
def test_links_lead_somewhere(path: Path) -> None:
    """Keeps out a link to a file that has moved, or to a heading that has another name."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        there = path.parent / name if name else path
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_every_page_is_found_from_the_readme() -> None:
    """Keeps out a page that no link leads to."""
    text = README.read_text(encoding="utf-8")
    assert all(f"(docs/{path.name})" in text for path in DOCS)


@pytest.mark.slow
def test_a_model_of_ones_own_is_compared(tmp_path: Path) -> None:
    """Keeps out a tutorial whose files do not run, or whose model no table shows."""
    text = (ROOT / "docs" / "your-model.md").read_text(encoding="utf-8")
    model, program, other, entry = (b for kind, b in FENCE.findall(text) if kind == "python")
    (tmp_path / "bag.py").write_text(model, encoding="utf-8")
    (tmp_path / "attending.py").write_text(other, encoding="utf-8")
    program = program.replace("from tasks", f"{entry}\nfrom tasks", 1)
    (tmp_path / "compare.py").write_text(program, encoding="utf-8")
    (command,) = (block for kind, block in FENCE.findall(text) if kind == "sh")
    command = command.replace("--models bag ", "--models bag attending ")
    argv = [sys.executable, *shlex.split(command)[1:], "--tokens", "600"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = {path.name.removesuffix("-seed1.json"): json.loads(path.read_text(encoding="utf-8"))
            for path in (tmp_path / "runs" / "bag").glob("*-seed1.json")}  # fmt: skip
    assert made.keys() == {"bag", "attending", "rnn_encdec", "bahdanau"}
    aligned = {name for name, record in made.items() if record["alignment"] is not None}
    assert aligned == {"attending", "bahdanau"}
    row = next(line for line in done.stdout.splitlines() if line.startswith("Bag of words"))
    assert len(row.split()) > 4


@each_page
def test_extras_and_scripts_exist(path: Path) -> None:
    """Keeps out a command that cannot be pasted: an extra or a script that no longer exists."""
    blocks = FENCE.findall(path.read_text(encoding="utf-8"))
    text = "\n".join(block for kind, block in blocks if kind == "sh")
    for extras in re.findall(r"\.\[([\w,]+)\]", text):
        assert set(extras.split(",")) <= PYPROJECT["project"]["optional-dependencies"].keys()
    for script in re.findall(r"^python ([\w/]+/[\w/]+\.py)", text, re.MULTILINE):
        assert (ROOT / script).exists()


def test_numbers_are_those_of_the_records() -> None:
    """Keeps out a number on a page that the committed records do not hold, or no longer."""
    pages = [str(page) for page in PAGES if "[[[cog" in page.read_text(encoding="utf-8")]
    assert str(README) in pages
    assert Cog().main(["cog", "-P", "--check", "-I", str(ROOT), *pages]) == 0


def test_the_citation_names_the_software_and_the_papers() -> None:
    """Keeps out a citation of another version, and a paper that is taught and not credited."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = PYPROJECT["project"]
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])
    table = README.read_text(encoding="utf-8").partition("## The five models")[2]
    papers = re.findall(r"\]\((https://(?:arxiv|cdn)[^)]+)\)", table.partition("\n## ")[0])
    assert [paper["url"] for paper in cited["references"]] == papers


@pytest.mark.slow
def test_the_wheel_holds_the_library(tmp_path: Path) -> None:
    """Keeps out a wheel without the models, and one with more than the library."""
    pytest.importorskip("setuptools", minversion="77")
    copy = tmp_path / "clone"
    left_out = shutil.ignore_patterns(".*", "runs", "__pycache__", "*.egg-info", "build", "results")
    shutil.copytree(ROOT, copy, ignore=left_out)
    program = "from setuptools import build_meta; build_meta.build_wheel('..')"
    subprocess.run([sys.executable, "-c", program], cwd=copy, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"seqmodels"}
    library = {path.relative_to(ROOT).as_posix() for path in (ROOT / "seqmodels").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == library
