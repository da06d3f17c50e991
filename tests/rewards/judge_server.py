"""A judge for tests: an OpenAI-compatible server in this process, a config that names it, and labels it can be measured with."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from conftest import CONFIG, sums, write_rows

RUBRIC = "Names every cause."
PASS, FAIL = '{"verdict": "pass"}', '{"verdict": "fail"}'


class Server(ThreadingHTTPServer):
    """Answers each request with the next of `script`: (status, body, headers) or a callable that writes; then with the last."""

    daemon_threads = True

    def __init__(self, *script):
        self.script, self.requests = list(script), []
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def __exit__(self, *exc):
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        server.requests.append((self.path, dict(self.headers), json.loads(body)))
        step = server.script[min(len(server.requests), len(server.script)) - 1]
        if callable(step):
            step(self)
            return
        status, data, headers = step
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def answer(text, model="llama-judge-1", finish="stop"):
    return 200, json.dumps({"model": model, "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": finish}]}).encode(), {}


def status(code, body=b"{}", **headers):
    return code, body, {k.replace("_", "-"): v for k, v in headers.items()}


def labels(count=80):
    """Half passes, half fails, two responses a prompt."""
    return [
        {"prompt": f"p{i // 2}", "completion": f"{'good' if i % 2 else 'bad'} {i}", "label": "pass" if i % 2 else "fail", "reviewer_kind": "human"}
        for i in range(count)
    ]


def by_word(handler):
    prompt = handler.server.requests[-1][2]["messages"][0]["content"]
    code, data, _ = answer(PASS if "\ngood" in prompt else FAIL, model=handler.server.model)
    handler.send_response(code)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def write_config(folder: Path, url: str, policy: str = "org/own-model", more: str = "") -> Path:
    write_rows(folder / "train.jsonl", sums(4))
    (folder / "rubric.txt").write_text(RUBRIC + "\n")
    judge = f"  - use: judge\n    args: {{base_url: '{url}', model: llama-judge, rubric_file: rubric.txt, calibration: judge.json{more}}}"
    text = CONFIG.replace("  - {use: exact}", judge).replace("name_or_path: model", f"name_or_path: {policy}")
    (folder / "config.yaml").write_text(text)
    return folder / "config.yaml"
