"""What is installed: the library alone."""

from __future__ import annotations

import fnmatch
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_only_one_name_is_installed() -> None:
    """Keeps out a top-level `tasks` or `tests` in everybody's site-packages."""
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = setup["tool"]["setuptools"]["packages"]["find"]["include"]
    folders = [path.name for path in ROOT.iterdir() if path.is_dir() and path.name.isidentifier()]
    found = [n for n in folders if any(fnmatch.fnmatchcase(n, pattern) for pattern in patterns)]
    assert found == ["seqmodels"]
    assert setup["project"]["scripts"] == {"seqmodels": "seqmodels.cli.main:main"}


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
