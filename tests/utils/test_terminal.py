"""Streams that are closed or full, as a shell can leave them."""

import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="needs a POSIX shell and /dev/full")
@pytest.mark.parametrize(("redirected", "code", "message"), [
    ("models >&-", 2, "standard output is closed"),
    ("models >/dev/full", 1, "No space left"),
    ("translate bahdanau <&-", 2, "standard input is closed"),
    ("plot /nowhere 2>&-", 2, ""),
])  # fmt: skip
def test_closed_and_full_streams_get_one_line(redirected: str, code: int, message: str) -> None:
    command = f"exec {sys.executable} -W ignore -m seqmodels.cli.main {redirected}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == bool(message)
