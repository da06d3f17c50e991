"""A client for servers with OpenAI's chat-completions interface (vLLM, SGLang, llama.cpp, hosted ones); standard library only."""

from __future__ import annotations

import copy
import http.client
import json
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from grpo_rlvr.completions import completion_text
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.rewards.judge_verdict import JudgeError

# Answers that may be better the next time; every other status of 400 and above is final.
TRY_AGAIN = (408, 409, 425, 429, 500, 502, 503, 504, 529)
LONGEST_WAIT_S = 60.0
LONGEST_BODY = 4 * 2**20


class OpenAIJudgeClient:
    """Asks one question at a time of `base_url`/chat/completions; threads may share it.

    Args:
        base_url: with the version, e.g. "http://localhost:8000/v1".
        model: the name to ask for. Name a dated snapshot where the server has them.
        api_key_env: environment variable that holds the key; read at each call, never stored or logged.
        timeout_s: the longest one try may take, from connecting to the last byte.
        retries: further tries after the first, for timeouts, broken connections, unreadable bodies and the statuses `TRY_AGAIN`.
        backoff_s: wait before the first retry; doubles each time, with jitter. A server's Retry-After is honoured up to a minute.
        max_concurrency: questions under way at once, over all threads.
        settings: body fields beside model and messages; None takes a default out (some servers refuse temperature).
        family: the judge's model family, where its name does not tell (an alias such as "judge").
        expected_model: the name the server must answer with (the calibrated one); another is a failure.
    """

    DEFAULTS: Mapping[str, Any] = {"temperature": 0, "max_tokens": 1024}

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key_env: str | None = None,
        timeout_s: float = 60.0,
        retries: int = 3,
        backoff_s: float = 1.0,
        max_concurrency: int = 8,
        settings: Mapping[str, Any] | None = None,
        family: str | None = None,
        expected_model: str | None = None,
    ):
        problems = []
        parts = urlsplit(base_url) if isinstance(base_url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
            problems.append(Problem("judge", f"base_url is {base_url!r}", "an address such as http://localhost:8000/v1"))
        elif parts.username or parts.password:
            problems.append(Problem("judge", "base_url holds a password", "put the key into an environment variable and name it in api_key_env"))
        if not isinstance(model, str) or not model.strip():
            problems.append(Problem("judge", f"model is {model!r}", "the name of the judge model on the server"))
        numbers = {"timeout_s": timeout_s, "backoff_s": backoff_s, "retries": retries, "max_concurrency": max_concurrency}
        for name, value in numbers.items():
            whole = name in ("retries", "max_concurrency")
            least = 1 if name == "max_concurrency" else 0
            good = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool) and value >= least
            if not good or (name == "timeout_s" and value == 0):
                problems.append(Problem("judge", f"{name} is {value!r}", f"a {'whole ' if whole else ''}number, {least} or more"))
        if api_key_env is not None and not os.environ.get(api_key_env):
            problems.append(Problem("judge", f"the environment variable {api_key_env} (api_key_env) is not set", "export it before the run"))
        if problems:
            raise UserError("config", problems)
        self.base_url, self.model, self.api_key_env = base_url.rstrip("/"), model, api_key_env
        self.timeout_s, self.retries, self.backoff_s, self.max_concurrency = timeout_s, retries, backoff_s, max_concurrency
        self.settings = {k: v for k, v in {**self.DEFAULTS, **(settings or {})}.items() if v is not None}
        self.family, self.expected_model = family, expected_model
        self.served_model: str | None = None  # the name in the server's last answer
        self._free = threading.BoundedSemaphore(max_concurrency)

    def __repr__(self) -> str:
        return f"<OpenAIJudgeClient {self.model} at {self.base_url}>"

    def __getstate__(self) -> dict:
        return {k: v for k, v in vars(self).items() if k != "_free"}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state)
        self._free = threading.BoundedSemaphore(self.max_concurrency)

    def expecting(self, served_model: str) -> OpenAIJudgeClient:
        """A copy that takes answers of this model only; the limit on questions under way is its own."""
        twin = copy.copy(self)
        twin.expected_model = served_model
        return twin

    def complete(self, prompt: str) -> str:
        """The model's reply to one user message. Raises JudgeError once the tries are used up, or at once if no try can help."""
        for attempt in range(self.retries + 1):
            wait_s = self.backoff_s * 2**attempt * random.uniform(0.75, 1.25)
            try:
                with self._free:
                    return self._reply(self._post(prompt))
            except urllib.error.HTTPError as exc:
                with exc:
                    problem = JudgeError(f"HTTP {exc.code} from {self.base_url}: {_start_of(exc)}")
                    wait_s = max(wait_s, _retry_after(exc))
                if exc.code not in TRY_AGAIN:
                    raise problem from None
            except (OSError, http.client.HTTPException, ValueError) as exc:
                problem = JudgeError(f"{type(exc).__name__} from {self.base_url}: {exc}")
            if attempt < self.retries:
                time.sleep(min(wait_s, LONGEST_WAIT_S))
        raise problem

    def _post(self, prompt: str) -> dict:
        # A lone surrogate, which a model may have written, is no UTF-8.
        message = {"role": "user", "content": prompt.encode("utf-8", "replace").decode("utf-8")}
        body = json.dumps({**self.settings, "model": self.model, "messages": [message]}).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.api_key_env:
            headers["Authorization"] = f"Bearer {os.environ.get(self.api_key_env, '')}"
        request = urllib.request.Request(f"{self.base_url}/chat/completions", data=body, headers=headers, method="POST")
        until = time.monotonic() + self.timeout_s
        with _OPENER.open(request, timeout=self.timeout_s) as response:
            data = b""
            while block := response.read1(65536):
                data += block
                # The socket's timeout is per read: a server that sends a byte now and then would never trip it.
                if time.monotonic() > until:
                    raise TimeoutError(f"the answer took longer than {self.timeout_s} s")
                if len(data) > LONGEST_BODY:
                    raise ValueError(f"the answer is longer than {LONGEST_BODY} bytes")
        answer = json.loads(data)
        if not isinstance(answer, dict):
            raise ValueError("the answer is no JSON object")
        return answer

    def _reply(self, answer: dict) -> str:
        choices = answer.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        if not isinstance(choice.get("message"), dict):
            raise ValueError("the answer holds no choices[0].message")
        served = answer.get("model")
        self.served_model = served if isinstance(served, str) else None
        if self.expected_model is not None and self.served_model != self.expected_model:
            raise JudgeError(f"the server answered as {self.served_model!r}, but the calibration is for {self.expected_model!r}; calibrate again")
        if choice.get("finish_reason") == "length":
            raise JudgeError("the reply was cut off; give the judge more max_tokens in settings")
        return completion_text(choice["message"])


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def _start_of(exc: urllib.error.HTTPError) -> str:
    try:
        return exc.read(300).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException, ValueError):
        return ""


def _retry_after(exc: urllib.error.HTTPError) -> float:
    try:
        return max(0.0, float(exc.headers.get("Retry-After", 0)))
    except (TypeError, ValueError):
        return 0.0
