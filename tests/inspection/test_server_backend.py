"""Sampling from an OpenAI-compatible server: a real one in this process, with the faults that servers have."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import inspect_rewards
import pytest
from fake_openai import FakeServer, chat_answer, json_answer, text_answer
from grpo_rlvr.data import load_rows
from grpo_rlvr.errors import MissingError, UserError
from grpo_rlvr.inspection.jsonl import read_lines
from grpo_rlvr.inspection.samples import load_samples, peek_header
from grpo_rlvr.inspection.sampling import draw_samples, planned_header


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    """No proxy, and no waits between tries."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("grpo_rlvr.openai_client.time.sleep", lambda seconds: None)


def words(body: dict, path: str = "", number: int = 0) -> list[str]:
    """What the server writes: fixed by prompt and seed, so that two runs can be compared."""
    prompt = body.get("prompt") or body["messages"][-1]["content"]
    return [f"{prompt} {body['seed'] + k}" for k in range(body.get("n", 1))]


def texts(body, path, number):
    return text_answer(words(body))


def chats(body, path, number):
    return chat_answer(words(body))


def configure(project, url: str, server: str = "", grpo: str = "", more: str = ""):
    return project.write(more=f", backend: openai, server: {{base_url: '{url}', timeout_s: 20, concurrency: 4, retries: 2{server}}}{more}", grpo=grpo)


def make_chat(project) -> None:
    rows = [json.loads(line) for line in (project.folder / "train.jsonl").read_text().splitlines()]
    rows = [{**row, "prompt": [{"role": "user", "content": row["prompt"]}]} for row in rows]
    (project.folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def draw(config, **more):
    return draw_samples(config, load_rows(config, "train"), quiet=True, **more)


def test_a_request_is_what_training_samples_with(project, monkeypatch):
    make_chat(project)
    monkeypatch.setenv("MY_KEY", "s3cret")
    with FakeServer(chats, {"data": [{"id": "org/model"}]}) as server:
        config = configure(
            project, server.url, ", api_key_env: MY_KEY, settings: {logprobs: true}",
            ", temperature: 0.7, top_p: 0.9, top_k: 20, repetition_penalty: 1.1, chat_template_kwargs: {enable_thinking: false}, "
            "generation_kwargs: {stop: ['</answer>']}",
        )  # fmt: skip
        samples = draw(config)
    assert len(server.requests) == 4 and len({b["seed"] for b in server.bodies}) == 4
    path, headers, body = server.requests[0]
    seed = body.pop("seed")
    assert path == "/v1/chat/completions" and headers["Authorization"] == "Bearer s3cret" and 0 <= seed < 2**31
    assert body.pop("messages")[0]["role"] == "user"
    assert body == {
        "model": "org/model", "n": 4, "temperature": 0.7, "top_p": 0.9, "max_tokens": 16, "top_k": 20, "min_p": 0.0, "repetition_penalty": 1.1,
        "return_token_ids": True, "chat_template_kwargs": {"enable_thinking": False}, "stop": ["</answer>"], "logprobs": True,
    }  # fmt: skip
    assert len(samples) == 16 and samples == load_samples(project.inspection)
    sample = samples[0]
    assert [m["role"] for m in sample["completion"]] == ["assistant"] and sample["finish"] == "stop" == sample["finish_reason"]
    assert sample["tokens"] == len(sample["completion"][0]["content"]) and sample["usage"]["prompt_tokens"] == 5
    header = peek_header(project.inspection)
    assert header["sampling"]["backend"] == "openai" and header["sampling"]["server"] == {"model": "org/model", "settings": {"logprobs": True}}
    for file in project.inspection.iterdir():
        assert b"s3cret" not in file.read_bytes() and server.url.encode() not in file.read_bytes()


def test_text_prompts_go_to_completions_and_no_op_settings_are_sent(project):
    with FakeServer(texts) as server:
        samples = draw(configure(project, server.url, ", samples_per_request: 2"))
    assert {path for path, _, _ in server.requests} == {"/v1/completions"} and len(server.requests) == 8
    body = server.bodies[0]
    # A vllm server would fill what is missing from the model's generation_config.json.
    assert (body["top_k"], body["min_p"], body["repetition_penalty"], body["n"]) == (0, 0.0, 1.0, 2) and "chat_template_kwargs" not in body
    assert all(isinstance(s["completion"], str) and s["completion"].startswith(s["prompt"]) for s in samples)
    assert len({s["completion"] for s in samples}) == 16


@pytest.mark.parametrize(
    "fault",
    [
        json_answer({"error": "slow down"}, 429, Retry_After="0"), json_answer({}, 500),
        json_answer({}, 503, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"),
        None, (200, b"{torn", {}), (200, b"[]", {}), (200, b"{", {"Content-Length": "99"}), text_answer([]), json_answer({"choices": [{"index": 0}]}),
        json_answer({"choices": [None]}),
    ],
)  # fmt: skip
def test_faults_that_may_pass_are_tried_again(project, fault):
    def third_time(body, path, number):
        return texts(body, path, number) if server.bodies.count(body) > 2 else fault

    with FakeServer(third_time) as server:
        assert len(draw(configure(project, server.url))) == 16 and len(server.requests) == 4 * 3
    (project.inspection / "samples.jsonl").unlink()
    with FakeServer(lambda *a: fault) as server:
        with pytest.raises(MissingError, match=r"no answer after 3 tries(.|\n)*run again: it goes on"):
            draw(configure(project, server.url, ", samples_per_request: 4"))
        assert len(server.requests) <= 3 * 4


def test_a_server_that_hangs_is_given_up_after_its_time(project):
    release = threading.Event()
    with FakeServer(lambda *a: release.wait(30) and None) as server:
        config = project.write(more=f", backend: openai, server: {{base_url: '{server.url}', timeout_s: 0.2, retries: 1}}")
        with pytest.raises(MissingError, match="no answer after 2 tries"):
            draw(config)
        release.set()


def test_what_stays_is_said_at_once(project, monkeypatch):
    monkeypatch.setenv("MY_KEY", "s3cret")
    with FakeServer(lambda *a: json_answer({"error": "key s3cret is unknown"}, 401)) as server:
        with pytest.raises(UserError, match=r"HTTP 401.*key \*\*\* is unknown(.|\n)*api_key_env"):
            draw(configure(project, server.url, ", api_key_env: MY_KEY"))
        assert len(server.requests) <= 4  # one for each thread
    with pytest.raises(UserError, match="NOT_SET_ANYWHERE.*is not set"):
        draw(configure(project, "http://127.0.0.1:9/v1", ", api_key_env: NOT_SET_ANYWHERE"))
    with pytest.raises(MissingError, match=r"nothing answers at http(.|\n)*vllm serve org/model"):
        draw(configure(project, server.url))
    with (
        FakeServer(texts, {"data": [{"id": "other-1"}, {"id": "other-2"}]}) as server,
        pytest.raises(UserError, match="no model 'org/model'; it has: other-1, other-2"),
    ):
        draw(configure(project, server.url))
    assert list(project.inspection.iterdir()) == [project.inspection / "samples.jsonl"]


def test_a_server_that_refuses_vllms_fields_is_named_and_they_can_be_left_out(project):
    def hosted(body, path, number):
        odd = [k for k in body if k in ("top_k", "min_p", "repetition_penalty", "return_token_ids")]
        if odd:
            return json_answer({"error": {"message": f"Unrecognized request argument supplied: {odd[0]}"}}, 400)
        if "max_tokens" in body:
            return json_answer({"error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}, 400)
        return text_answer(words(body))

    with FakeServer(hosted) as server:
        with pytest.raises(UserError) as caught:
            draw(configure(project, server.url))
        fix = caught.value.problems[0].fix
        assert "refuses top_k" in caught.value.problems[0].message
        line = re.search(r"settings: \{.*?\}", fix)[0]
        assert line == "settings: {top_k: null, min_p: null, repetition_penalty: null, return_token_ids: null}"
        with pytest.raises(UserError, match="refuses max_tokens") as caught:
            draw(configure(project, server.url, ", " + line))
        more = re.search(r"settings: \{(.*?)\}", caught.value.problems[0].fix)[1]
        assert more == "max_tokens: null, max_completion_tokens: 16"
        assert len(draw(configure(project, server.url, ", " + line[:-1] + ", " + more + "}"))) == 16
        assert server.bodies[-1]["max_completion_tokens"] == 16
        assert peek_header(project.inspection)["sampling"]["server"]["settings"]["top_k"] is None


@pytest.mark.parametrize("refuses", [True, False])
def test_servers_without_n_are_asked_one_by_one(project, refuses, capsys):
    def single(body, path, number):
        if refuses and body.get("n", 1) > 1:
            return json_answer({"error": {"message": "only one completion is supported\n", "param": "n"}}, 400)
        return text_answer(words(body)[:1])

    with FakeServer(single) as server:
        samples = draw(configure(project, server.url))
    assert len({s["completion"] for s in samples}) == 16  # no seed was asked with twice
    assert ("refuses n" in capsys.readouterr().err) == refuses
    assert len(server.requests) <= 16 + 4 * refuses


def test_reasoning_that_was_split_off_is_put_back(project):
    make_chat(project)
    messages = iter(
        [
            ({"content": "\n\n<answer>1</answer>", "reasoning_content": "\nhm\n"}, "stop"), ({"content": None, "reasoning": "endless"}, "length"),
            ({"content": "cut", "reasoning": "hm"}, "length"), ({"content": None}, "content_filter"),
        ]
    )  # fmt: skip
    choices = [{"index": i, "message": {"role": "assistant", **m}, "finish_reason": f} for i, (m, f) in enumerate(messages)]
    with FakeServer(lambda *a: json_answer({"choices": choices[::-1], "usage": {"completion_tokens": 9}})) as server:
        samples = draw(configure(project, server.url))[:4]
    assert [s["completion"][0]["content"] for s in samples] == [
        "<think>\nhm\n</think>\n\n<answer>1</answer>", "<think>endless", "<think>hm</think>cut", "",
    ]  # fmt: skip
    assert [s["finish"] for s in samples] == ["stop", "length", "length", "unknown"] and samples[3]["finish_reason"] == "content_filter"
    assert [s["tokens"] for s in samples] == [None] * 4  # 9 tokens of four completions are nobody's length


def test_a_killed_run_asks_for_no_answer_twice(project):
    """One of the first requests is never answered, so that most others come before their turn; then the run is killed."""
    release, enough = threading.Event(), threading.Event()

    def slow(body, path, number):
        if number == 1:
            release.wait(60)
            return None
        return text_answer(words(body))

    command = [sys.executable, inspect_rewards.__file__, "run", str(project.config_path), "--json"]
    env = {**os.environ, "no_proxy": "127.0.0.1"}
    with FakeServer(slow) as server:
        configure(project, server.url, ", samples_per_request: 1")
        run = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        early = project.inspection / "samples.early.jsonl"
        until = time.monotonic() + 30
        while len(read_lines(early)) < 9 and time.monotonic() < until and run.poll() is None:
            enough.wait(0.02)
        run.send_signal(signal.SIGKILL)
        run.wait()
        release.set()
    kept = {line.value["start"] for line in read_lines(early)}
    done = len(kept) + len(read_lines(project.inspection / "samples.jsonl")) - 1  # those before the unanswered one are in their place
    assert len(kept) >= 9 and done <= 15
    with FakeServer(texts) as server:
        configure(project, server.url, ", samples_per_request: 1")  # the server has moved to another port
        again = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert again.returncode == 1 and f"going on after {done} of 16 samples" in again.stderr, again.stderr
        assert len(server.requests) == 16 - done and not early.exists()
    samples = load_samples(project.inspection)
    (project.inspection / "samples.jsonl").unlink()
    with FakeServer(texts) as server:
        assert draw(configure(project, server.url, ", samples_per_request: 1")) == samples


def test_another_backends_samples_are_not_set_aside_without_a_word(project):
    with FakeServer(texts) as server:
        config = configure(project, server.url)
        rows = load_rows(config, "train")
        draw(config)
        before = (project.inspection / "samples.jsonl").read_bytes()
        plain = project.write()
        assert len(draw(plain)) == 16
        # Neither the gate nor a run that names no backend asks for new samples.
        assert planned_header(plain, rows)["sampling"]["backend"] == "openai"
        with pytest.raises(UserError, match=r"openai drew with the same settings(.|\n)*--backend openai(.|\n)*--redraw"):
            draw(config, backend="vllm")
        assert (project.inspection / "samples.jsonl").read_bytes() == before
        # Other settings are another matter: as ever, the old samples are kept beside.
        draw(configure(project, server.url, grpo=", temperature: 0.5"))
    assert len(list(project.inspection.glob("samples.????????.jsonl"))) == 1


def test_without_a_server_section_it_says_what_to_write(project):
    with pytest.raises(UserError, match=r"server: \{base_url"):
        draw(project.write(), backend="openai")
