"""Files that are written whole or not at all, whose a file or a folder is, and a lock."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PART = ".part"
"""Suffix of a file while it is being written; its name begins with a dot."""
LOCK = ".lock"
"""Name of a folder's lock."""
GRACE_S = 3.0
"""How long to wait for a process that has just been killed, which takes a moment to end."""


def write(path: Path, content: bytes | str) -> Path:
    """Write the content to the path and flush it to disk; on failure, leave the path as it was."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
    try:
        with open(part, "xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; raise ValueError that names a file with other content."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:  # including UnicodeDecodeError
        raise ValueError(f"{path} is not JSON ({error}); restore it, or move it away") from None


# ------------------------------------------------------------------------------------ Whose it is

MARK = ".seqmodels"
"""The file by which a folder says what it is for, such as a comparison."""
RECORDS = {"comparison": "*.json", "reproduction": "*/*.json"}
"""Where a folder has its records, by what it is for."""
TABLES_END = "<!-- seqmodels plot writes all above this line anew, and keeps what is below it. -->"
"""The end of tables.md, as it is written."""
FILE_MARKS = {
    ".html": "· seqmodels</title>".encode(),
    ".md": TABLES_END.encode(),
    ".png": b"Software\0seqmodels",
    ".svg": b"\n      <dc:title>seqmodels</dc:title>\n",
}
"""Marks of the files that we write, by suffix; of an SVG, its creator, indented by matplotlib."""


def check_folder(folder: Path, kind: str) -> bool:
    """Return whether a folder is empty or absent; raise ValueError if it is not ours.

    It is ours if MARK says so, or if it has records where one of this kind has them, as results/.
    """
    if not folder.exists():
        return True
    if not folder.is_dir():
        raise ValueError(f"--out {folder} is not a folder")
    paths = [path for path in folder.iterdir() if not path.name.startswith(f".{MARK}.")]
    if not paths:
        return True
    if (mark := folder / MARK) in paths and mark.read_text("utf-8").strip() == kind:
        return False
    records = folder.glob(RECORDS[kind]) if kind in RECORDS else ()
    if any(path.is_file() and b'"seqmodels.record/' in path.read_bytes() for path in records):
        return False
    raise ValueError(
        f"{folder} has files, but none says that they are those of a seqmodels {kind}; nothing is "
        "written there: name a new or an empty folder"
    )


def claim_folder(folder: Path, kind: str) -> Path:
    """Return a folder to write to, which is created and marked as ours if it is new.

    Raises ValueError as `check_folder` does.
    """
    if check_folder(folder, kind):
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / MARK, f"{kind}\n")
    return folder


def claim_file(path: Path) -> Path:
    """Return a path to write to; raise ValueError if it has a file that we did not write."""
    mark = FILE_MARKS.get(path.suffix.lower())
    if path.exists() and (mark is None or mark not in path.read_bytes()):
        raise ValueError(f"{path} was not written by seqmodels; move it, or name another file")
    return path


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Lock a folder; raise ValueError if another process keeps it for longer than GRACE_S."""
    from filelock import FileLock, Timeout  # takes longer to import than to print help

    try:
        with FileLock(folder / LOCK, GRACE_S):
            try:
                yield
            finally:
                (folder / LOCK).unlink(missing_ok=True)
    except Timeout:
        raise ValueError(
            f"{folder} is in use by another process; wait until it has ended, or choose another "
            "--out"
        ) from None
