"""A server with OpenAI's interface in this process, for tests: what it answers is a function of the request."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeServer(ThreadingHTTPServer):
    """`reply(body, path, number)` returns (status, body, headers), or None to hang up.

    Attributes:
        requests: (path, headers, body) of each POST, in order of arrival.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, reply: Callable, models: object = None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply, self.models, self.requests, self.lock = reply, models, [], threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def bodies(self) -> list[dict]:
        return [body for _, _, body in self.requests]

    def __enter__(self) -> FakeServer:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *exc_info) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address) -> None:
        pass  # a client that was killed


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self._send(*(json_answer(self.server.models) if self.server.models is not None else (404, b"{}", {})))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append((self.path, dict(self.headers), body))
            number = len(self.server.requests)
        answer = self.server.reply(body, self.path, number)
        if answer is None:
            self.close_connection = True
            return
        self._send(*answer)

    def _send(self, status: int, data: bytes, headers: dict):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def json_answer(value: object, status: int = 200, **headers: str) -> tuple[int, bytes, dict]:
    return status, json.dumps(value).encode(), {k.replace("_", "-"): v for k, v in headers.items()}


def chat_answer(texts: list[str], finish: str = "stop", ids: bool = True, **more) -> tuple[int, bytes, dict]:
    choices = [
        {"index": i, "message": {"role": "assistant", "content": t}, "finish_reason": finish, **({"token_ids": [1] * len(t)} if ids else {})}
        for i, t in enumerate(texts)
    ]
    return json_answer({"model": "org/model", "choices": choices, "usage": {"prompt_tokens": 5, "completion_tokens": sum(map(len, texts))}, **more})


def text_answer(texts: list[str], finish: str = "stop") -> tuple[int, bytes, dict]:
    choices = [{"index": i, "text": t, "finish_reason": finish, "token_ids": [1] * len(t)} for i, t in enumerate(texts)]
    return json_answer({"model": "org/model", "choices": choices, "usage": {"prompt_tokens": 5, "completion_tokens": sum(map(len, texts))}})
