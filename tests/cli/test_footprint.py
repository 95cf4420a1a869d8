"""What commands write: nothing outside the folders that they are given, and the cache."""

import os
import shlex
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import pytest
from conftest import RESULTS, ROOT, Call, copy_records, needs_lesson, needs_tasks

from seqmodels.cli import main

RUN = RESULTS / "translation-live" / "bahdanau-seed1"
CHEAP = {
    "models": "",
    "exercise bahdanau --hide '(5)' --out week": "cwd/week",
    "translate bahdanau 'The cat sleeps.' --beam 2 --alignment map.svg": "cwd/map.svg",
    "generate gpt The --length 3": "",
    "plot recorded": "cwd/recorded",
    "report recorded --maps 0 --out page.html": "cwd/page.html",
    "live trained --out live.html": "cwd/live.html",
    **{f"run {task} --size smoke --models gpt --dry-run": "cache" for task in (
        "copy", "translation", "next_token", "memory", "bottleneck", "mistakes",
    )},
}  # fmt: skip
"""Commands, in this order, and the file or folder that each was told; nothing: none."""
DEAR = {
    "check mine.py:MyGPT": "",
    "export gpt --out onnx": "cwd/onnx",
    "run copy --size smoke --models gpt --tokens 200 --device cpu --out run": "cwd/run cache",
    "site --out site": "cwd/site",
}
"""Those that take longer, each in a process of its own."""


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """Make a folder to work in, a home, a cache and a folder of temporary files."""
    places = {name: tmp_path / name for name in ("cwd", "home", "cache", "tmp")}
    for path in places.values():
        path.mkdir()
    copy_records(RESULTS / "recall", places["cwd"] / "recorded", model="gpt")
    runs = copy_records(RUN.parent, places["cwd"] / "trained", "gpt-seed1.safetensors", model="gpt")
    (runs / "vocabulary.json").write_bytes((RUN.parent / "vocabulary.json").read_bytes())
    chapter = (ROOT / "seqmodels" / "models" / "gpt.py").read_text(encoding="utf-8")
    (places["cwd"] / "mine.py").write_text(chapter.replace("class GPT(", "class MyGPT("), "utf-8")
    return places


def snapshot(*folders: Path) -> dict[Path, tuple[int, int]]:
    """Return size and time of all files and folders, without those of the tests' own tools."""
    found = {}
    for folder in folders:
        for place, names, files in os.walk(folder):
            names[:] = [n for n in names if (n[0] != "." and n != "__pycache__") or folder != ROOT]
            # torch's optimizers make an empty folder of this name
            paths = (Path(place, name) for name in (*names, *files))
            for path in (path for path in paths if not path.name.startswith("torchinductor_")):
                stat = path.lstat()
                found[path] = (0, 0) if path.is_dir() else (stat.st_size, stat.st_mtime_ns)
    return found


def check_footprint(
    before: dict[Path, tuple[int, int]], places: dict[str, Path], told: str
) -> None:
    """Check that all that has changed is at or below what was told, and that there is some."""
    home = next(iter(places.values())).parent
    after = snapshot(ROOT, *places.values())
    changed = {path for path in before.keys() | after if before.get(path) != after.get(path)}
    allowed = [home / name for name in told.split()]
    outside = [p for p in changed if not any(p.is_relative_to(place) for place in allowed)]
    assert outside == []
    for place in allowed:
        assert place == places["cache"] or any(p.is_relative_to(place) for p in changed), place


@needs_tasks
@needs_lesson
@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("commands", [CHEAP, pytest.param(DEAR, marks=pytest.mark.slow)])
def test_commands_write_only_where_they_are_told(
    commands: dict[str, str], places: dict[str, Path], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {"HOME": "home", "SEQMODELS_CACHE": "cache", "TMPDIR": "tmp", "MPLCONFIGDIR": "fonts"}
    for name, place in named.items():
        monkeypatch.setenv(name, str(places["cwd"].with_name(place)))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(places["cwd"])
    import_module("browser").replace_runtime(monkeypatch)
    for name in [name for name in sys.modules if name.endswith(".__main__")]:
        monkeypatch.delitem(sys.modules, name)  # tasks are run, as files
    for command, told in commands.items():
        before, words = snapshot(ROOT, *places.values()), shlex.split(command)
        if commands is CHEAP:
            code, _, err = call(main, *words)
        else:
            program = [sys.executable, "-m", "seqmodels.cli.main", *words]
            ran = subprocess.run(program, capture_output=True, text=True)
            code, err = ran.returncode, ran.stderr
        assert code == 0, err
        check_footprint(before, places, told)
