"""Serve the report of folders in which models are being trained, drawn again as training goes on.

The server listens on 127.0.0.1 alone, and refuses requests that name another host.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

from lesson import report

HOST = "127.0.0.1"


class Server(ThreadingHTTPServer):
    """Serves the report of some folders; the page polls `/state` and reloads when it changes."""

    daemon_threads = True

    def __init__(self, folders: Sequence[Path], n_maps: int, port: int):
        super().__init__((HOST, port), Handler)
        self.folders, self.n_maps, self.drawing = folders, n_maps, Lock()

    def state(self) -> str:
        """Return a checksum of the names, sizes and times of the files in the folders."""
        state = []
        for path in sorted(path for folder in self.folders for path in folder.glob("*")):
            if path.suffix in (".json", ".jsonl", ".safetensors"):
                with suppress(FileNotFoundError):  # a checkpoint that has just been replaced
                    state.append((str(path), path.stat().st_size, path.stat().st_mtime_ns))
        return hashlib.sha256(repr(state).encode()).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Answers with the page, or with the state of the folders."""

    server: Server

    def do_GET(self) -> None:
        """Answer a request; one that names another host comes from a page elsewhere."""
        server, port = self.server, self.server.server_address[1]
        names = [f"{HOST}:{port}", f"localhost:{port}"]
        names += [HOST, "localhost"] if port == 80 else []  # browsers leave out the default
        is_ours = self.headers["Host"] in names
        if not is_ours or self.path not in ("/", "/state"):
            self.send_error(HTTPStatus.NOT_FOUND if is_ours else HTTPStatus.FORBIDDEN)
            return
        text = server.state()
        if self.path == "/":
            try:
                with server.drawing:  # matplotlib draws for one thread at a time
                    text = report.page(server.folders, server.n_maps, text)
            except ValueError as error:  # such as a record that another program has written
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=str(error))
                return
        content = text.encode()
        self.send_response(HTTPStatus.OK)
        kind = "text/html" if self.path == "/" else "text/plain"
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print no line per request."""


def serve(folders: Sequence[Path], n_maps: int, port: int) -> None:
    """Serve the report until Ctrl-C; port 0 takes any that is free.

    Raises ValueError if the port is taken, or a folder is given twice.
    """
    report.check_folders(folders)
    try:
        server = Server(folders, n_maps, port)
    except OSError as error:
        raise ValueError(f"port {port} cannot be opened: {error.strerror}; name another") from error
    with server:
        address = f"http://{HOST}:{server.server_address[1]}"
        print(f"{address} shows the report; Ctrl-C ends it", flush=True)
        server.serve_forever()
