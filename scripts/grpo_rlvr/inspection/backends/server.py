"""A server with OpenAI's interface: a running `vllm serve`, or a hosted one. Messages go to chat/completions, text prompts to completions."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from grpo_rlvr.cli import say
from grpo_rlvr.config import Config
from grpo_rlvr.errors import MissingError, Problem, UserError
from grpo_rlvr.inspection.backends.backend import Batch, Drawn
from grpo_rlvr.inspection.jsonl import sha256
from grpo_rlvr.openai_client import Endpoint, RequestFailed, endpoint_problems, whole_text
from grpo_rlvr.sections import ServerSection

LONGEST_ANSWER = 2**28  # bytes; 64 completions of 32,000 tokens are some 10 MB
# Not OpenAI's own: vLLM and SGLang take them, hosted servers often refuse them. Without top_k, min_p and repetition_penalty vLLM would take the
# values of the model's generation_config.json, so they are sent even where they change nothing.
VLLM_ONLY = ("top_k", "min_p", "repetition_penalty", "return_token_ids", "chat_template_kwargs")
PLACE = "inspection.server"


def server_settings(config: Config) -> dict[str, Any]:
    """What of the server decides the samples: the model's name there and the fields that are added or left out."""
    server = config.inspection.server
    return {"model": (server and server.model) or config.model.name_or_path, "settings": dict(server.settings) if server else {}}


class ServerBackend:
    """Requests under way at once up to `concurrency`; a batch is one request of `samples_per_request` completions of a prompt."""

    def __init__(self, config: Config):
        server = self.server = _section(config)
        numbers = {"timeout_s": server.timeout_s, "retries": server.retries, "max_concurrency": server.concurrency}
        if problems := endpoint_problems(PLACE, server.base_url, server.api_key_env, numbers):
            raise UserError("config", problems)
        self.config, self.model = config, server_settings(config)["model"]
        self.endpoint = Endpoint(
            server.base_url, server.api_key_env, server.timeout_s, server.retries, max_concurrency=server.concurrency, longest_body=LONGEST_ANSWER
        )
        self.batch_size = server.samples_per_request or config.inspection.samples_per_prompt or config.num_generations
        self.one_by_one = False  # the server has refused n
        self._said: set[str] = set()

    def __enter__(self) -> ServerBackend:
        self._look_for_model()
        return self

    def __exit__(self, *exc_info) -> None:
        pass

    def draw(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, list[Drawn]]]:
        yield from in_threads(self._draw_batch, batches, self.server.concurrency)

    def _draw_batch(self, batch: Batch) -> list[Drawn]:
        """Asks until all completions are there: some servers take `n` and answer with one."""
        drawn: list[Drawn] = []
        while len(drawn) < len(batch.prompts):
            prompt = batch.prompts[len(drawn)]
            wanted = next((k for k, p in enumerate(batch.prompts[len(drawn) :]) if p != prompt), len(batch.prompts) - len(drawn))
            count = 1 if self.one_by_one else wanted
            # Another seed for each request, or a server that heeds it would write the same again.
            drawn += self._ask(prompt, count, int(sha256(f"{batch.seed} {len(drawn)}")[:8], 16) >> 1)
        return drawn

    def _ask(self, prompt: str | list[dict], count: int, seed: int) -> list[Drawn]:
        chat = not isinstance(prompt, str)
        body = self._body(prompt, count, seed)
        try:
            return self.endpoint.ask("/chat/completions" if chat else "/completions", body, lambda answer: self._read(answer, chat, count))
        except RequestFailed as exc:
            if exc.status in (400, 422) and count > 1 and _names(exc.said, "n"):
                self.one_by_one = True
                self._say_once("the server refuses n: asking for one completion at a time")
                return self._ask(prompt, 1, seed)
            raise self._explained(exc, body) from None

    def _body(self, prompt: str | list[dict], count: int, seed: int) -> dict[str, Any]:
        sampling = self.config.sampling
        fields = {
            "temperature": sampling["temperature"],
            "top_p": sampling["top_p"],
            "max_tokens": sampling["max_completion_length"],
            "seed": seed,
            "top_k": sampling["top_k"],
            "min_p": 0.0 if sampling["min_p"] is None else sampling["min_p"],
            "repetition_penalty": sampling["repetition_penalty"],
            "return_token_ids": True,  # the only way to each completion's own length where n is above 1
            **(sampling["generation_kwargs"] or {}),
        }
        if isinstance(prompt, str):
            own = {"prompt": whole_text(prompt)}
        else:
            own = {"messages": whole_text(prompt)}
            if sampling["chat_template_kwargs"]:
                fields["chat_template_kwargs"] = sampling["chat_template_kwargs"]
        fields |= self.server.settings
        return {**{k: v for k, v in fields.items() if v is not None}, **own, "model": self.model, **({"n": count} if count > 1 else {})}

    def _read(self, answer: dict, chat: bool, count: int) -> list[Drawn]:
        choices = answer.get("choices")
        if not isinstance(choices, list) or not choices or not all(isinstance(c, dict) for c in choices):
            raise ValueError("the answer holds no choices")
        choices = sorted(choices, key=lambda c: c["index"] if isinstance(c.get("index"), int) else 0)[:count]
        usage = answer.get("usage") if isinstance(answer.get("usage"), dict) else {}
        served = answer.get("model")
        more = {"usage": {k: usage.get(k) for k in ("prompt_tokens", "completion_tokens")} | {"completions": len(choices)}}
        if isinstance(served, str) and served != self.model:
            more["served_model"] = served
        return [self._drawn(choice, chat, usage if len(choices) == 1 else {}, more) for choice in choices]

    def _drawn(self, choice: dict, chat: bool, usage: dict, more: dict) -> Drawn:
        reason = choice.get("finish_reason")
        finish = "length" if reason == "length" else "stop" if reason in ("stop", "tool_calls", "eos") else "unknown"
        if chat:
            completion: str | list[dict] = [self._message(choice.get("message"), finish)]
        else:
            completion = whole_text(choice.get("text"))
            if not isinstance(completion, str):
                raise ValueError("a choice of the answer holds no text")
        ids = choice.get("token_ids")
        tokens = len(ids) if isinstance(ids, list) else usage.get("completion_tokens")
        if type(tokens) is not int:
            self._say_once("the server does not say how long each completion is; with samples_per_request: 1 most do")
            tokens = None
        return Drawn(completion, finish, tokens, {"finish_reason": reason, **more})

    def _message(self, message: Any, finish: str) -> dict:
        """The assistant message, a reasoning that was split off put back as `<think>...</think>`: as the model wrote it and TRL hands it on.

        Cut off in the middle of the reasoning, there is no closing tag, as there was none in what the model wrote.
        """
        if not isinstance(message, dict):
            raise ValueError("a choice of the answer holds no message")
        content, reasoning = message.get("content"), message.get("reasoning_content") or message.get("reasoning")
        if content is not None and not isinstance(content, str):
            raise ValueError("a message of the answer holds no text")
        text = content or ""
        if isinstance(reasoning, str) and reasoning:
            self._say_once(
                "the server splits off the reasoning: put back as <think>...</think> (vllm serve without --reasoning-parser gives it whole)"
            )
            text = f"<think>{reasoning}" + ("" if finish == "length" and not text else f"</think>{text}")
        calls = message.get("tool_calls")
        return whole_text({"role": "assistant", "content": text, **({"tool_calls": calls} if isinstance(calls, list) and calls else {})})

    def _look_for_model(self) -> None:
        """Says at once that no server answers, or that it has no such model. Hosts without a list of models are believed."""
        probe = Endpoint(self.server.base_url, self.server.api_key_env, min(self.server.timeout_s, 30.0), retries=0, longest_body=LONGEST_ANSWER)
        try:
            listed = probe.ask("/models", None, lambda answer: answer)
        except RequestFailed as exc:
            if exc.status is None and ("URLError" in str(exc) or "Connection" in str(exc)):
                fix = f"start it (vllm serve {self.model}), or correct inspection.server.base_url"
                raise MissingError("server", Problem(PLACE, f"nothing answers at {self.server.base_url}: {exc}", fix)) from None
            return
        data = listed.get("data")
        names = [m["id"] for m in data if isinstance(m, dict) and isinstance(m.get("id"), str)] if isinstance(data, list) else []
        if names and len(names) < 50 and self.model not in names:
            fix = "name one of them in inspection.server.model"
            raise UserError("server", Problem(PLACE, f"the server has no model '{self.model}'; it has: {', '.join(names[:10])}", fix))

    def _explained(self, exc: RequestFailed, body: dict) -> Exception:
        if exc.status in (400, 422):
            refused = [name for name in (*VLLM_ONLY, "seed", "max_tokens", "temperature", "top_p") if name in body and _names(exc.said, name)]
            if refused:
                return self._refusal(exc, body, refused)
        if exc.final and exc.status is not None:
            fix = {401: "check the key in the variable that api_key_env names", 403: "check the key and its rights"}.get(
                exc.status, "check inspection.server: base_url (with /v1), model, settings"
            )
            return UserError("server", Problem(PLACE, str(exc), fix))
        tries = self.server.retries + 1
        return MissingError("server", Problem(PLACE, f"no answer after {tries} tries: {exc}", "run again: it goes on where it stopped"))

    def _refusal(self, exc: RequestFailed, body: dict, refused: list[str]) -> UserError:
        # A server that does not know one of vLLM's fields knows none of them, and names the first.
        left_out = [*refused, *(k for k in VLLM_ONLY if k in body)] if refused[0] in VLLM_ONLY else refused
        settings = [f"{name}: null" for name in dict.fromkeys(left_out)]
        settings += [f"max_completion_tokens: {body['max_tokens']}"] if "max_tokens" in refused else []
        message = f"the server refuses {', '.join(refused)}, with which training samples: {exc}"
        fix = f"write under inspection: server: settings: {{{', '.join(settings)}}}; are its own values those of training?"
        return UserError("server", Problem(PLACE, message, fix))

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            say(text)


def in_threads(work: Callable[[Batch], Any], batches: Iterable[Batch], count: int) -> Iterator[tuple[Batch, Any]]:
    """(batch, its result) as they come, from `count` threads that do not hold up the end of the program; the first error ends it."""
    todo: queue.SimpleQueue = queue.SimpleQueue()
    done: queue.SimpleQueue = queue.SimpleQueue()
    total = 0
    for batch in batches:
        todo.put(batch)
        total += 1
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            try:
                batch = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((batch, work(batch), None))
            except BaseException as exc:
                done.put((batch, None, exc))

    for _ in range(min(count, total)):
        threading.Thread(target=run, daemon=True).start()
    failed = None
    try:
        while total and failed is None:
            batch, result, failed = done.get()
            total -= 1
            if failed is None:
                yield batch, result
        stop.set()
        # What came back beside the failure is kept.
        while failed is not None and not done.empty():
            batch, result, other = done.get()
            if other is None:
                yield batch, result
    finally:
        stop.set()
    if failed is not None:
        raise failed


def _section(config: Config) -> ServerSection:
    if config.inspection.server is None:
        fix = "write under inspection: server: {base_url: http://localhost:8000/v1}"
        raise UserError("config", Problem(PLACE, "is missing, and the backend is openai", fix))
    return config.inspection.server


def _names(said: str, field: str) -> bool:
    """Whether an error's text names a field of the request; the n of an escaped line end is none."""
    return re.search(rf"\b{field}\b", said.replace("\\n", " ")) is not None
