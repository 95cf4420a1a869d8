"""Fuzz every reader, guided by coverage, and print the faults.

    pip install -e '.[fuzz]'                    Linux, Python 3.11 to 3.13
    python -m tools.fuzz --runs 100_000

The runs are divided among the targets. A fault is an unexpected exception, more than 5 seconds,
more than 1 GB, or a file opened for writing outside the target's folder. One input of each kind is
saved; `--target NAME --input FILE` runs it again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

SLOW_S = 5.0
HANGS_S = 60
LARGE_BYTES = 10**9
WRITES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate"}


class Watch:
    """Watch for writes outside a folder, and for the time and memory that an input takes."""

    def __init__(self, folder: Path):
        self.folder, self.outside = str(folder), set[str]()
        self.slowest_s, self.peak_bytes = 0.0, 0
        sys.addaudithook(self.hear)

    def hear(self, event: str, given: tuple[Any, ...]) -> None:
        """Check what Python is about to open, create, move or remove: an audit hook."""
        if event == "open":
            path, _, flags = given
            if isinstance(path, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        elif event not in WRITES:
            return
        for path in given[: 2 if event in ("os.rename", "os.link") else 1]:
            where = (
                os.path.realpath(os.fsdecode(path)) if not isinstance(path, int) else "/dev/null"
            )
            if not where.startswith((self.folder, "/proc/", "/dev/null")):
                self.outside.add(where)

    def fault_of(self, run: Any, data: bytes) -> str | None:
        """Run an input; return its fault, or None."""
        from seqmodels.records import record

        self.outside.clear()
        record.reset_peak_memory("cpu")
        since = time.perf_counter()
        fault = None
        try:
            run(data)
        except BaseException as error:  # any exception is reported
            *_, last = traceback.extract_tb(error.__traceback__)
            said = str(error).replace(self.folder, "FOLDER")[:200]
            fault = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {said}"
        seconds, peak = time.perf_counter() - since, record.peak_memory_bytes("cpu")
        self.slowest_s = max(self.slowest_s, seconds)
        self.peak_bytes = max(self.peak_bytes, peak)
        if fault is None and self.outside:
            fault = f"wrote outside: {min(self.outside)}"
        if fault is None and seconds > SLOW_S:
            fault = f"slow: more than {SLOW_S:.0f} s"
        if fault is None and peak > LARGE_BYTES:
            fault = f"large: more than {LARGE_BYTES / 1e9:.0f} GB"
        return fault


def fuzz(name: str, runs: int, out: Path, seed: int, one: Path | None) -> None:
    """Fuzz one target, or run one input again; either way, this ends the process."""
    import atheris

    with atheris.instrument_imports(include=["seqmodels", "tasks"]):
        from tools.fuzz.targets import TARGETS, stubbed

    stubbed(setattr)
    with tempfile.TemporaryDirectory() as made:
        folder, inputs = Path(made).resolve() / "folder", Path(made) / "inputs"
        for path in (folder, inputs):
            path.mkdir()
        target = TARGETS[name](folder)
        for i, content in enumerate(target.seeds):
            (inputs / str(i)).write_bytes(content)
        for content in target.seeds:  # one-time loading must not count against an input
            target.run(content)
        if one:
            target.run(one.read_bytes())
            sys.exit(0)
        watch, done, taken, kinds = Watch(folder), 0, 0, dict[str, str]()

        def count(data: bytes) -> None:
            nonlocal taken
            taken += target.run(data)

        def run(data: bytes) -> None:
            nonlocal done
            fault = watch.fault_of(count, data)
            done += 1
            if fault and fault.partition(": ")[0] not in kinds:
                path = out / f"{name}-{hashlib.sha256(data).hexdigest()[:8]}"
                path.write_bytes(data)
                kinds[fault.partition(": ")[0]] = f"{path}: {fault}"
            if done >= runs:
                result = {
                    "inputs": done, "taken": taken, "faults": kinds,
                    "slowest": watch.slowest_s, "peak": watch.peak_bytes,
                }  # fmt: skip
                (out / f"{name}.result").write_text(json.dumps(result))
                os._exit(0)

        flags = [f"-seed={seed}", f"-timeout={HANGS_S}", "-rss_limit_mb=4096", "-max_len=25000"]
        flags += [
            "-len_control=0",
            f"-artifact_prefix={out / name}-killed-",
            "-print_final_stats=0",
            "-verbosity=0",
        ]
        atheris.Setup([sys.argv[0], *flags, str(inputs)], run)
        atheris.Fuzz()


def main() -> None:
    """Fuzz every target in its own process, and print a table."""
    p = argparse.ArgumentParser(
        prog="python -m tools.fuzz", description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    names = ["text", "parallel", "table", "tokenizer", "record", "ledger", "run", "command"]
    p.add_argument(
        "--runs",
        type=int,
        default=100_000,
        metavar="N",
        help="inputs over all targets (default: 100,000)",
    )
    p.add_argument("--seed", type=int, default=1, metavar="N", help="libFuzzer's seed (default: 1)")
    p.add_argument("--out", type=Path, default=Path("runs/fuzz"), metavar="DIR",
                   help="where failing inputs are saved (default: runs/fuzz)")  # fmt: skip
    p.add_argument("--target", choices=names, help="fuzz only this target, in this process")
    p.add_argument("--input", type=Path, metavar="FILE", help="with --target: run this input again")
    args = p.parse_args()
    try:
        import atheris  # noqa: F401
    except ImportError:
        sys.exit("atheris is not installed: pip install -e '.[fuzz]' (Linux, Python 3.11 to 3.13)")
    args.out.mkdir(parents=True, exist_ok=True)
    if args.target:
        fuzz(args.target, args.runs, args.out.resolve(), args.seed, args.input)
    print(
        f"{'target':10} {'inputs':>9} {'faults':>6} {'slowest':>9} {'peak memory':>11}", flush=True
    )
    faults: list[str] = []
    for name in names:
        log, result = args.out / f"{name}.log", args.out / f"{name}.result"
        result.unlink(missing_ok=True)
        own = ["--target", name, "--runs", str(-(-args.runs // len(names)))]
        own += ["--seed", str(args.seed), "--out", str(args.out)]
        with log.open("w") as said:
            subprocess.run([sys.executable, "-m", "tools.fuzz", *own], stdout=said, stderr=said)
        if not result.exists():  # libFuzzer kills a process that hangs or grows too large
            faults.append(f"{args.out / name}-killed-*: see {log}")
            print(f"{name:10} killed", flush=True)
            continue
        found = json.loads(result.read_text())
        faults += found["faults"].values()
        print(
            f"{name:10} {found['inputs']:10,} {found['taken']:9,} {len(found['faults']):6} "
            f"{found['slowest']:7.2f} s {found['peak'] / 1e6:8.0f} MB", flush=True,
        )  # fmt: skip
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
