"""What is imported is declared, and what the pages name runs with the core's packages alone."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from conftest import ROOT
from packaging.requirements import Requirement

from seqmodels.utils.imports import import_beside

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OURS = "seqmodels", "tasks", "lesson"
RUN = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
for module in ("lesson.build", "lesson.report", "lesson.exercise", "seqmodels.comparison"):
    __import__(module)
from seqmodels.cli.main import main
for command in commands:
    sys.argv = ["seqmodels", *command, "--help"]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, command
"""


def clean(name: str) -> str:
    return name.lower().replace("_", "-")


def with_needs(name: str, names: set[str]) -> set[str]:
    """Return the names, with a package and all that it needs."""
    names.add(clean(name))
    for each in map(Requirement, requires(name) or ()):
        is_needed = not each.marker or each.marker.evaluate({"extra": ""})
        if is_needed and clean(each.name) not in names:
            with_needs(each.name, names)
    return names


def test_every_imported_package_is_declared() -> None:
    extras = PROJECT["optional-dependencies"]
    given = [*PROJECT["dependencies"], *(each for n in extras if n != "dev" for each in extras[n])]
    declared, imported = {clean(Requirement(text).name) for text in given}, set[str]()
    assert all(">=" in text for text in given)
    for path in (path for folder in OURS for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(str(node.module).partition(".")[0])
    homes, ours = packages_distributions(), {*sys.stdlib_module_names, *OURS}
    found = {name: {*map(clean, homes.get(name, [name]))} for name in imported - ours}
    assert len(found) > 20
    assert {name for name, its in found.items() if not its & declared} == set()


def test_the_commands_of_the_pages_need_no_extra() -> None:
    names = set[str]()
    for text in PROJECT["dependencies"]:
        with_needs(Requirement(text).name, names)
    homes = packages_distributions()
    hidden = {p for p, its in homes.items() if p not in OURS and not {*map(clean, its)} & names}
    assert {"pytest", "onnx", "ray"} & hidden >= {"pytest", "onnx"}
    pages = "".join((ROOT / name).read_text("utf-8") for name in ("README.md", "docs/teaching.md"))
    commands = {(name,) for name in re.findall(r"(?m)(?:^|`|&& )seqmodels ([a-z]+) ", pages)}
    commands |= {("run", task) for task in re.findall(r"python -m tasks\.(\w+)", pages)}
    assert {("site",), ("check",), ("exercise",), ("run", "memory")} <= commands
    program = f"hidden, commands = {hidden!r}, {sorted(commands)!r}\n{RUN}"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_foreign_module_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lesson.py").write_text("raise AssertionError('executed')")
    monkeypatch.delitem(sys.modules, "lesson", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"lesson\.py hides"):
        import_beside("lesson.build")
