"""Requests to servers with OpenAI's interface (vLLM, SGLang, llama.cpp, hosted ones): retries, waits, limits; standard library only."""

from __future__ import annotations

import datetime
import email.utils
import http.client
import json
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

from grpo_rlvr.errors import Problem

T = TypeVar("T")

# Answers that may be better the next time; every other status of 400 and above is final.
TRY_AGAIN = (408, 409, 425, 429, 500, 502, 503, 504, 529)
LONGEST_WAIT_S = 60.0
LONGEST_BODY = 4 * 2**20
READ, SHOWN = 4096, 300  # of an error's body: more is read than shown, so that no key is cut in two before it is found


class RequestFailed(Exception):
    """No usable answer: `status` of the last try (None if none came), `said` the start of its body, `final` whether another try cannot help."""

    def __init__(self, message: str, status: int | None = None, said: str = "", final: bool = False):
        super().__init__(message)
        self.status, self.said, self.final = status, said, final


class Endpoint:
    """One server; threads may share it.

    Args:
        base_url: with the version, e.g. "http://localhost:8000/v1".
        api_key_env: environment variable that holds the key; read at each request, never stored or logged.
        timeout_s: the longest one try may take, from connecting to the last byte.
        retries: further tries after the first, for timeouts, broken connections, unreadable bodies and the statuses `TRY_AGAIN`.
        backoff_s: wait before the first retry; doubles each time, with jitter. A server's Retry-After is honoured up to a minute.
        max_concurrency: requests under way at once, over all threads.
        longest_body: bytes of an answer.
    """

    def __init__(
        self,
        base_url: str,
        api_key_env: str | None = None,
        timeout_s: float = 60.0,
        retries: int = 3,
        backoff_s: float = 1.0,
        max_concurrency: int = 8,
        longest_body: int = LONGEST_BODY,
    ):
        self.base_url, self.api_key_env, self.longest_body = base_url.rstrip("/"), api_key_env, longest_body
        self.timeout_s, self.retries, self.backoff_s, self.max_concurrency = timeout_s, retries, backoff_s, max_concurrency
        self._free = threading.BoundedSemaphore(max_concurrency)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.base_url}>"

    def __getstate__(self) -> dict:
        return {k: v for k, v in vars(self).items() if k != "_free"}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state)
        self._free = threading.BoundedSemaphore(self.max_concurrency)

    def ask(self, path: str, body: dict | None, read: Callable[[dict], T]) -> T:
        """POST `body` (GET without one) to `base_url` + `path` and return `read(answer)`; a ValueError of `read` is tried again like a broken answer.

        Raises:
            RequestFailed: once the tries are used up, or at once if no try can help.
        """
        for attempt in range(self.retries + 1):
            wait_s = self.backoff_s * 2**attempt * random.uniform(0.75, 1.25)  # noqa: S311  (spreads retries)
            try:
                with self._free:
                    return read(self._send(path, body))
            except urllib.error.HTTPError as exc:
                with exc:
                    said = self._without_key(_start_of(exc))[:SHOWN]
                    problem = RequestFailed(f"HTTP {exc.code} from {self.base_url}: {said}", exc.code, said, exc.code not in TRY_AGAIN)
                    wait_s = max(wait_s, _retry_after(exc.headers.get("Retry-After")))
                if problem.final:
                    raise problem from None
            except (OSError, http.client.HTTPException, ValueError, RecursionError) as exc:
                problem = RequestFailed(f"{type(exc).__name__} from {self.base_url}: {self._without_key(str(exc))[:SHOWN]}")
            if attempt < self.retries:
                time.sleep(min(wait_s, LONGEST_WAIT_S))
        raise problem

    def _send(self, path: str, body: dict | None) -> dict:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.api_key_env:
            headers["Authorization"] = f"Bearer {os.environ.get(self.api_key_env, '')}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base_url + path, data=data, headers=headers, method="GET" if body is None else "POST")  # noqa: S310  (http or https: endpoint_problems)
        until = time.monotonic() + self.timeout_s
        with _opener().open(request, timeout=self.timeout_s) as response:
            blocks, size = [], 0
            while block := response.read1(65536):
                blocks.append(block)
                size += len(block)
                # The socket's timeout is per read: a server that sends a byte now and then would never trip it.
                if time.monotonic() > until:
                    raise TimeoutError(f"the answer took longer than {self.timeout_s} s")
                if size > self.longest_body:
                    raise ValueError(f"the answer is longer than {self.longest_body} bytes")
        answer = json.loads(b"".join(blocks))
        if not isinstance(answer, dict):
            raise ValueError("the answer is no JSON object")
        return answer

    def _without_key(self, text: str) -> str:
        # Some servers repeat a key that they refuse.
        key = os.environ.get(self.api_key_env, "") if self.api_key_env else ""
        return text.replace(key, "***") if key else text


def endpoint_problems(place: str, base_url: Any, api_key_env: str | None, numbers: dict[str, Any]) -> list[Problem]:
    """What is wrong with the arguments of an `Endpoint`; `numbers` are its number arguments as they were given."""
    problems = []
    parts = _split(base_url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        problems.append(Problem(place, f"base_url is {base_url!r}", "an address such as http://localhost:8000/v1"))
    elif parts.username or parts.password:
        problems.append(Problem(place, "base_url holds a password", "put the key into an environment variable and name it in api_key_env"))
    for name, value in numbers.items():
        whole = name in ("retries", "max_concurrency")
        least = 1 if name == "max_concurrency" else 0
        good = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool) and value >= least
        if not good or (name == "timeout_s" and value == 0):
            problems.append(Problem(place, f"{name} is {value!r}", f"a {'whole ' if whole else ''}number, {least} or more"))
    if api_key_env is not None and not os.environ.get(api_key_env):
        problems.append(Problem(place, f"the environment variable {api_key_env} (api_key_env) is not set", "export it before the run"))
    return problems


def whole_text(value: Any) -> Any:
    """The value with every lone surrogate, which a model may have written and UTF-8 cannot hold, replaced; in nested lists and mappings too."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [whole_text(v) for v in value]
    return {k: whole_text(v) for k, v in value.items()} if isinstance(value, dict) else value


def first_choice(answer: dict) -> dict:
    """The first entry of `choices`; an empty one where there is none."""
    choices = answer.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


@cache
def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirect)  # reads the machine's certificates, so only where something is asked


def _split(base_url: Any):
    try:
        return urlsplit(base_url) if isinstance(base_url, str) else None
    except ValueError:  # such as "http://[::1"
        return None


def _start_of(exc: urllib.error.HTTPError) -> str:
    try:
        return exc.read(READ).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException, ValueError):
        return ""


def _retry_after(value: str | None) -> float:
    """Seconds, from a number of seconds or a date (RFC 9110, 10.2.3)."""
    try:
        return max(0.0, float(value or 0))
    except ValueError:
        pass
    try:
        at = email.utils.parsedate_to_datetime(value)
        return max(0.0, (at - datetime.datetime.now(datetime.UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0
