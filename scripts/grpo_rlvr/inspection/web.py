"""The server of the review page: for one reader, on this machine's own address only, with a secret in the address that is printed.

It is Python's own `http.server`: five routes for one person on the loopback address need no framework, and reading samples then works
wherever the light scripts do. What other pages in the same browser, other users of the machine and the samples themselves could try is
answered in `_refusal` and `_send`.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from grpo_rlvr.cli import say
from grpo_rlvr.errors import CheckFailed, Problem, UserError
from grpo_rlvr.inspection.page import policy, served_page
from grpo_rlvr.inspection.reading import Reading
from grpo_rlvr.inspection.view import sample_view
from grpo_rlvr.visible import visible

HOST = "127.0.0.1"
OWN_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]{1,5})?")
PATHS = ("/", "/api/state", "/api/sample", "/api/label", "/api/finish")
MOST_BYTES = 64 * 1024  # of a request's body: a note of 4,000 characters, each escaped, and the rest
IDLE_S = 60  # a connection that says nothing for so long is closed
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class ReviewServer(ThreadingHTTPServer):
    """Serves one `Reading`. `finished` is set when the reader says so, or when it stops for another reason."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, reading: Reading, port: int = 0):
        self.reading, self.token, self.finished = reading, secrets.token_urlsafe(24), threading.Event()
        self.lock = threading.Lock()  # one request at a time touches the reading
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as exc:
            fix = "leave out --port for a free one, or name another"
            raise UserError("review", Problem("--port", f"port {port} cannot be used: {exc.strerror or exc}", fix)) from exc
        self.cookie = f"grpo_rlvr_review_{self.port}"  # cookies do not know ports; two reviews on this machine must not mix theirs

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # http.server's own would ask the network for this machine's name

    @property
    def port(self) -> int:
        return self.server_address[1]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def serve_until_finished(self) -> None:
        """Serve until the reader finishes; a KeyboardInterrupt passes through when what is being written has been written."""
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            while not self.finished.wait(3600):
                pass
        finally:
            self.finished.set()
            self.shutdown()
            with self.lock:  # a label on its way to the disk gets there
                self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        fault = sys.exc_info()[1]
        if not isinstance(fault, ConnectionError | TimeoutError):
            say(f"review page: {visible(f'{type(fault).__name__}: {fault}')[:300]}")


class _Refused(Exception):
    """Status and reason."""


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S

    def do_GET(self) -> None:
        self._answer({"/": self._page, "/api/state": self._state, "/api/sample": self._sample})

    def do_POST(self) -> None:
        self._answer({"/api/label": self._label, "/api/finish": self._finish})

    def _answer(self, routes: dict) -> None:
        try:
            path = self._check(routes)
            self.asked = self._body() if self.command == "POST" else {}
            with self.server.lock:
                send, *arguments = routes[path]()
        except _Refused as exc:
            self.close_connection = True  # what follows may be a body that was not read
            send, arguments = self._say, exc.args
        except CheckFailed as exc:
            send, arguments = self._say, (409, {"error": exc.to_json(), "said": self._said(self.asked["sample_id"])})
        except UserError as exc:
            send, arguments = self._say, (400, {"error": exc.to_json()})
        except OSError as exc:  # a full disk: the reader must know that the label is not saved
            send, arguments = self._say, (500, {"error": {"message": f"not saved: {exc.strerror or exc}"}})
        send(*arguments)

    def _check(self, routes: dict) -> str:
        """The path asked for, if the request may be answered."""
        if self.server.finished.is_set():  # a connection that was still open
            raise _Refused(503, "The review has ended. What is shown as judged is saved; what you just did is not. Start it again to go on.")
        url = urlsplit(self.path)
        try:
            self.query = {name: values[-1] for name, values in parse_qs(url.query, max_num_fields=10).items()}
        except ValueError:
            raise _Refused(400, "too many parameters") from None
        if refusal := self._refusal(url.path):
            raise _Refused(403, refusal)
        if url.path not in routes:
            raise _Refused(405, "another method is needed here") if url.path in PATHS else _Refused(404, "there is no such page")
        return url.path

    def _refusal(self, path: str) -> str:
        """Why a request is not answered: it comes from another site, or from someone who does not know the secret. Else an empty text."""
        hosts, origin = self.headers.get_all("Host") or [], self.headers.get("Origin")
        # A page elsewhere whose name was pointed at this address still sends its own name (DNS rebinding). Any port: ssh -L may use another.
        if len(hosts) != 1 or not OWN_HOST.fullmatch(hosts[0]):
            return "this host name is not served; open the address that was printed"
        if (self.command == "POST" and origin is None) or (origin is not None and origin != f"http://{hosts[0]}"):
            return "requests from other pages are not answered"
        if path != "/" and self.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return "requests from other pages are not answered"
        if not self._knows_token(path):
            return "open the address that inspect_rewards.py review printed; it holds the secret of this review"
        return ""

    def _knows_token(self, path: str) -> bool:
        given = [self.query["token"]] if path == "/" and "token" in self.query else self._cookies()
        return any(hmac.compare_digest(value.encode("utf-8", "replace"), self.server.token.encode()) for value in given)

    def _cookies(self) -> list[str]:
        pairs = [part.strip().partition("=") for header in self.headers.get_all("Cookie") or [] for part in header.split(";")]
        return [value for name, _, value in pairs if name == self.server.cookie]

    # Each route returns what to call when the lock is released, so that a slow connection holds up nobody.

    def _page(self) -> tuple:
        return self._send, 200, served_page(), "text/html; charset=utf-8", True

    def _state(self) -> tuple:
        reading = self.server.reading
        told = {"said": {i: self._plain(row) for i, row in reading.said().items()}, "stale": reading.is_stale(), "notice": reading.notice}
        return self._say, 200, {"reviewer": reading.reviewer, "selected": list(reading.places), **told}

    def _sample(self) -> tuple:
        reading, sample_id = self.server.reading, self._known(self.query.get("id"))
        sample = reading.selection[reading.places[sample_id]]
        return self._say, 200, {**sample_view(sample, reading.gold_names), "score": reading.score(sample_id)}

    def _label(self) -> tuple:
        asked, reading = self.asked, self.server.reading
        sample_id = self._known(asked.get("sample_id"))
        if not all(isinstance(asked.get(name), str) for name in ("label", "note")) or type(asked.get("turn")) is not int:
            raise _Refused(400, "label and note must be text and turn a whole number")
        added = reading.judge(sample_id, asked["label"], asked["note"], asked["turn"])
        return self._say, 200, {"added": added, "said": self._said(sample_id), "score": reading.score(sample_id)}

    def _finish(self) -> tuple:
        return self._say_and_stop, 200, {k: v for k, v in self.server.reading.summary().items() if k != "folder"}

    def _known(self, sample_id: Any) -> str:
        if not isinstance(sample_id, str) or sample_id not in self.server.reading.places:
            raise _Refused(404, "this sample is not one of those selected")
        return sample_id

    def _said(self, sample_id: str) -> dict | None:
        row = self.server.reading.said().get(sample_id)
        return row and self._plain(row)

    def _plain(self, row: dict) -> dict:
        """What the page needs of a sample's last line; the reward's verdict is among it only where the reader has judged."""
        verdict = None if row["label"] == "undone" else self.server.reading.hidden_score(row["sample_id"])["verdict"]
        return {"label": row["label"], "note": row.get("note", ""), "turn": row["turn"], "verdict": verdict}

    def _body(self) -> dict:
        """The request's JSON object."""
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            raise _Refused(411, "a Content-Length is needed")
        if len(length) > 9 or int(length) > MOST_BYTES:
            raise _Refused(413, f"a request may have {MOST_BYTES:,} bytes at most; shorten the note")
        if self.headers.get_content_type() != "application/json":  # anything else a page elsewhere could send without asking first
            raise _Refused(415, "the content type must be application/json")
        try:
            value = json.loads(self.rfile.read(int(length)).decode("utf-8"))
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise _Refused(400, "the body is no JSON object")
        return value

    def _say_and_stop(self, status: int, content: dict) -> None:
        try:
            self._say(status, content)
        finally:
            self.server.finished.set()

    def _say(self, status: int, content: str | dict) -> None:
        """JSON, or plain words for people and scanners. ASCII only: half a surrogate pair in a completion must not break the answer."""
        if isinstance(content, str):
            content = {"error": {"message": content}}
        self._send(status, json.dumps(content).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str, set_cookie: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", policy() + "; frame-ancestors 'none'")
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if set_cookie:
            self.send_header("Set-Cookie", f"{self.server.cookie}={self.server.token}; HttpOnly; SameSite=Strict; Path=/")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """http.server's own faults (a bad request line, an unknown method), without its page that quotes the request."""
        self.close_connection = True
        self.command = getattr(self, "command", None) or "GET"
        self._send(405 if code == 501 else code, b'{"error": {"message": "the request is not understood"}}', "application/json")

    def version_string(self) -> str:
        return "grpo-rlvr"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the first request line holds the secret, and others would fill the reader's terminal."""
