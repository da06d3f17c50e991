"""A model as verifier: pass or fail against a rubric, once it has been shown to agree with people."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.rewards.base import Reward, log
from grpo_rlvr.rewards.context import Context
from grpo_rlvr.rewards.judge_calibration import FLOOR, calibration_problem, load_calibration
from grpo_rlvr.rewards.judge_client import OpenAIJudgeClient
from grpo_rlvr.rewards.judge_verdict import ask_all, client_name, is_client, prompt_text, response_text, text_hash
from grpo_rlvr.rewards.model_families import families, shared_family


class JudgeReward(Reward):
    """1.0 if the judge says pass, 0.0 if it says fail, None where there is no verdict.

    The judge sees the prompt and what follows the reasoning of the last assistant message. An empty response is 0.0
    without a question. Equal responses to one prompt are asked about once a batch.
    """

    correctness = True

    def __init__(self, name: str, client: Any, rubric: str, source_files: tuple[Path, ...] = ()):
        super().__init__(name)
        self.client, self.rubric, self.source_files = client, rubric, source_files

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        prompts = columns.get("prompts")
        if prompts is None:
            prompts = [""] * len(completions)
        if len(prompts) != len(completions):
            raise self._misuse(f"{len(prompts)} prompts for {len(completions)} completions")
        pairs = [(prompt_text(p), response_text(c)) for p, c in zip(prompts, completions, strict=True)]
        verdicts = ask_all(self.client, self.rubric, pairs)
        self.unscored += sum(v is None for v in verdicts)
        return [None if v is None else float(v) for v in verdicts]


class AsyncJudgeReward(JudgeReward):
    """The same for TRL's asynchronous rewards, which it waits for together."""

    async def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        return await asyncio.to_thread(JudgeReward.__call__, self, completions, **columns)


def make_rubric_judge_reward(
    client: Any,
    rubric: str,
    calibration: Mapping | None = None,
    policy: str | None = None,
    floor: float = FLOOR,
    asynchronous: bool = False,
) -> JudgeReward:
    """The judge reward.

    Args:
        client: an `OpenAIJudgeClient`, any callable from the question (text) to the reply (text), or an object with such
            a method named complete, judge, generate or chat; coroutines are awaited. `max_concurrency` and `model` of the object are honoured.
        rubric: what a response must fulfil to pass.
        calibration: what `calibrate_judge` returned for this judge and rubric. Without one an `OpenAIJudgeClient` is refused, and
            another client builds with a warning.
        policy: name or folder of the model in training; a judge of the same family is refused.
        floor: the least TPR and TNR of the calibration.
        asynchronous: make the reward a coroutine function.
    """
    problems = []
    if not is_client(client):
        problems.append(Problem("judge", f"client is a {type(client).__name__}, which cannot be asked", "give a callable or an OpenAIJudgeClient"))
    if not isinstance(rubric, str) or not rubric.strip():
        problems.append(Problem("judge", "the rubric is empty", "say what a response must fulfil to pass"))
    if problems:
        raise UserError("config", problems)
    problems = [*_calibration_problems(client, rubric, calibration, floor), *family_problems(client, policy)]
    if problems:
        raise UserError("config", problems)
    if calibration is not None and calibration["judge"].get("served_model") and isinstance(client, OpenAIJudgeClient):
        client = client.expecting(calibration["judge"]["served_model"])
    kind = AsyncJudgeReward if asynchronous else JudgeReward
    return kind(f"judge_reward_{text_hash(rubric.strip())[:8]}", client, rubric)


def make_configured_judge(
    base_url: str,
    model: str,
    calibration: str,
    rubric: str | None = None,
    rubric_file: str | None = None,
    api_key_env: str | None = None,
    timeout_s: float = 60.0,
    retries: int = 3,
    backoff_s: float = 1.0,
    max_concurrency: int = 8,
    settings: Mapping[str, Any] | None = None,
    family: str | None = None,
    *,
    context: Context,
) -> JudgeReward:
    """`use: judge` of a config; paths are relative to its folder.

    Args:
        base_url: of an OpenAI-compatible server, with the version: `http://localhost:8000/v1`.
        model: the judge's name on that server; a dated snapshot where there are some.
        calibration: the file that calibrate_judge.py wrote.
        rubric: what a response must fulfil to pass; this or rubric_file.
        rubric_file: a text file with the rubric.
        api_key_env: the environment variable that holds the key.
        timeout_s: the longest one try may take.
        retries: further tries after a timeout, a broken connection, or a status such as 429 and 503.
        backoff_s: the wait before the first retry; it doubles each time.
        max_concurrency: questions under way at once.
        settings: fields of the request beside model and messages; null takes a default (temperature 0, max_tokens 1024) out.
        family: the judge's model family, where its name does not tell.
    """
    options = (rubric, rubric_file, api_key_env, timeout_s, retries, backoff_s, max_concurrency, settings, family)
    client, rubric, files = configured_client(base_url, model, *options, context=context)
    files = [context.resolve(calibration), *files]
    reward = make_rubric_judge_reward(client, rubric, load_calibration(files[0]), policy=context.policy)
    reward.source_files = tuple(files)
    return reward


def configured_client(
    base_url: str,
    model: str,
    rubric: str | None = None,
    rubric_file: str | None = None,
    api_key_env: str | None = None,
    timeout_s: float = 60.0,
    retries: int = 3,
    backoff_s: float = 1.0,
    max_concurrency: int = 8,
    settings: Mapping[str, Any] | None = None,
    family: str | None = None,
    *,
    context: Context,
) -> tuple[OpenAIJudgeClient, str, list[Path]]:
    """The client of a `judge` section without its calibration, the rubric, and the rubric's file if it has one."""
    files = []
    if (rubric is None) == (rubric_file is None):
        raise UserError("config", Problem("args", "rubric and rubric_file: exactly one of the two is needed"))
    if rubric_file is not None:
        path = context.resolve(rubric_file)
        try:
            rubric = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as exc:
            raise UserError("config", Problem("args.rubric_file", f"{path} cannot be read: {exc}")) from None
        files.append(path)
    return OpenAIJudgeClient(base_url, model, api_key_env, timeout_s, retries, backoff_s, max_concurrency, settings, family), rubric, files


def _calibration_problems(client: Any, rubric: str, calibration: Mapping | None, floor: float) -> list[Problem]:
    fix = "measure it against human labels: calibrate_judge(client, rubric, labelled), or calibrate_judge.py CONFIG --labels FILE.jsonl"
    if calibration is None:
        if isinstance(client, OpenAIJudgeClient):
            return [Problem("judge", f"there is no calibration for {client.model} with this rubric", fix)]
        log.warning("judge: %s is uncalibrated: nobody knows how often it is right", client_name(client))
        return []
    why = calibration_problem(calibration, client, rubric, floor)
    return [Problem("judge", f"the calibration does not vouch for this judge: {why}", fix)] if why else []


def family_problems(client: Any, policy: str | None) -> list[Problem]:
    if policy is None:
        return []
    names = [client_name(client), getattr(client, "family", None)]
    judge = " ".join(n for n in names if isinstance(n, str))
    shared = shared_family(judge, policy)
    if shared:
        message = f"the judge ({judge}) and the policy ({policy}) are both of the family {shared}; a judge favours its own"
        return [Problem("judge", message, "take a judge of another family")]
    if not families(judge):
        log.warning("judge: the family of %s is not known; make sure that it is another than the policy's (option family)", judge)
    return []
