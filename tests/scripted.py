"""A loopback server that says what it is told to: it misbehaves on order, as no healthy service would."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# An answer is (status, headers, body); None drops the connection without one.
Answer = tuple[int, dict[str, str], bytes] | None


@dataclass(frozen=True)
class Asked:
    """A request as it arrived; header names are in lower case, and what came under one name twice is joined."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Script:
    """Answers to give, in order (the last one again and again), and what was asked."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    requests: list[Asked] = field(default_factory=list)

    def next(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def scripted_server() -> Iterator[Script]:
    """Serve what the script says, on a loopback port."""
    script = Script()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): ", ".join(self.headers.get_all(name, [])) for name in self.headers}
            script.requests.append(Asked(self.command, self.path, headers, body))
            answer = script.next()
            if answer is None:
                self.close_connection = True
                return
            status, own_headers, content = answer
            self.send_response(status)
            for name, value in own_headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 - the names http.server looks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name upstream
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
