"""A judge behind a server with OpenAI's chat-completions interface."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from grpo_rlvr.completions import completion_text
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.openai_client import Endpoint, RequestFailed, endpoint_problems, first_choice, whole_text
from grpo_rlvr.rewards.judge_verdict import JudgeError


class OpenAIJudgeClient(Endpoint):
    """Asks one question at a time of `base_url`/chat/completions; threads may share it.

    Args:
        base_url, api_key_env, timeout_s, retries, backoff_s: as of `Endpoint`.
        model: the name to ask for. Name a dated snapshot where the server has them.
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
        numbers = {"timeout_s": timeout_s, "backoff_s": backoff_s, "retries": retries, "max_concurrency": max_concurrency}
        problems = endpoint_problems("judge", base_url, api_key_env, numbers)
        if not isinstance(model, str) or not model.strip():
            problems.append(Problem("judge", f"model is {model!r}", "the name of the judge model on the server"))
        if problems:
            raise UserError("config", problems)
        super().__init__(base_url, api_key_env, timeout_s, retries, backoff_s, max_concurrency)
        self.model = model
        self.settings = {k: v for k, v in {**self.DEFAULTS, **(settings or {})}.items() if v is not None}
        self.family, self.expected_model = family, expected_model
        self.served_model: str | None = None  # the name in the server's last answer

    def __repr__(self) -> str:
        return f"<OpenAIJudgeClient {self.model} at {self.base_url}>"

    def expecting(self, served_model: str) -> OpenAIJudgeClient:
        """A copy that takes answers of this model only; the limit on questions under way is its own."""
        twin = copy.copy(self)
        twin.expected_model = served_model
        return twin

    def complete(self, prompt: str) -> str:
        """The model's reply to one user message. Raises JudgeError once the tries are used up, or at once if no try can help."""
        body = {**self.settings, "model": self.model, "messages": [{"role": "user", "content": whole_text(prompt)}]}
        try:
            return self.ask("/chat/completions", body, self._reply)
        except RequestFailed as exc:
            raise JudgeError(str(exc)) from None

    def _reply(self, answer: dict) -> str:
        choice = first_choice(answer)
        if not isinstance(choice.get("message"), dict):
            raise ValueError("the answer holds no choices[0].message")
        served = answer.get("model")
        self.served_model = served if isinstance(served, str) else None
        if self.expected_model is not None and self.served_model != self.expected_model:
            raise JudgeError(f"the server answered as {self.served_model!r}, but the calibration is for {self.expected_model!r}; calibrate again")
        if choice.get("finish_reason") == "length":
            raise JudgeError("the reply was cut off; give the judge more max_tokens in settings")
        return completion_text(choice["message"])
