"""Run a task's command in this process and print, as JSON, the functions of ours that it calls."""

import inspect
import json
import runpy
import sys
from pathlib import Path
from types import FrameType

from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
called: set[tuple[str, str]] = set()
in_run: set[str] = set()
depth = 0


def note(frame: FrameType, event: str, _: object) -> None:
    """Note a call of a function that is defined in the repository."""
    global depth
    code = frame.f_code
    if event not in ("call", "return") or not code.co_filename.startswith(str(ROOT)):
        return
    depth += {"call": 1, "return": -1}[event] * (code.co_name == "train_and_record")
    is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_name[0] != "<"  # no class body
    if event == "call" and is_function:
        name = Path(code.co_filename).relative_to(ROOT).as_posix()
        called.add((name, code.co_qualname))
        if depth:
            in_run.add(name)


if __name__ == "__main__":
    module, *flags = sys.argv[1:]
    sys.argv[1:], sys.path[0] = flags, str(ROOT)
    Figure.draw_without_rendering = Figure.savefig = lambda *_, **__: None  # take the most time
    sys.setprofile(note)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        sys.setprofile(None)
        files = sorted({name for name, _ in called})
        ours = sorted(m for m in sys.modules if m.partition(".")[0] in ("seqmodels", "tasks"))
        report = {"functions": len(called), "files": files, "run": sorted(in_run), "modules": ours}
        print(f"\n{json.dumps(report)}")
