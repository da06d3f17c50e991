"""The transport to OpenAI-compatible servers; its faults are tried where it is used (judge, server backend)."""

from __future__ import annotations

import datetime
import email.utils

import pytest
from fake_openai import FakeServer, json_answer
from grpo_rlvr import openai_client
from grpo_rlvr.openai_client import Endpoint, RequestFailed, endpoint_problems, whole_text


@pytest.fixture(autouse=True)
def waits(monkeypatch) -> list[float]:
    """The waits between tries, which are not waited for."""
    seen: list[float] = []
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(openai_client.time, "sleep", seen.append)
    return seen


def test_waits_double_and_a_server_may_ask_for_longer_ones(waits):
    soon = email.utils.format_datetime(datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=30), usegmt=True)
    answers = [json_answer({}, 500), json_answer({}, 429, Retry_After="7.5"), json_answer({}, 503, Retry_After=soon),
               json_answer({}, 429, Retry_After="86400"), json_answer({}, 429, Retry_After="later"), json_answer({"fine": True})]  # fmt: skip
    with FakeServer(lambda body, path, number: answers[number - 1]) as server:
        assert Endpoint(server.url, retries=5).ask("/x", {"a": 1}, lambda answer: answer["fine"]) is True
    assert 0.75 <= waits[0] <= 1.25 and waits[1] == 7.5 and 25 < waits[2] <= 30 and waits[3] == 60 and 12 <= waits[4] <= 20


def test_a_reader_may_send_it_back_and_some_answers_are_final(waits):
    def read(answer):
        raise ValueError("no choices")

    with FakeServer(lambda *a: json_answer({})) as server:
        with pytest.raises(RequestFailed, match="no choices") as caught:
            Endpoint(server.url, retries=2).ask("/x", {}, read)
        assert len(server.requests) == 3 and not caught.value.final
        with pytest.raises(KeyError):
            Endpoint(server.url).ask("/x", {}, lambda answer: answer["absent"])  # a fault of ours is not tried again
        with pytest.raises(RequestFailed) as caught:
            Endpoint(server.url).ask("/models", None, lambda answer: answer)  # the server lists no models
        assert (caught.value.status, caught.value.final) == (404, True)


def test_text_that_is_no_utf8_is_made_whole():
    assert whole_text({"a": ["x\ud800", {"b": "ä"}], "n": 1}) == {"a": ["x?", {"b": "ä"}], "n": 1}


def test_addresses_are_checked():
    for url in ("http://[::1", "localhost:1", None, "http://user:key@host/v1"):
        assert endpoint_problems("p", url, None, {})
    assert endpoint_problems("p", "http://[::1]:8000/v1", None, {"retries": 0, "timeout_s": 0.5}) == []


def test_no_part_of_a_key_is_repeated(monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-" + "k3y" * 20)
    said = "x" * (openai_client.SHOWN - 10) + " sk-" + "k3y" * 20  # a cut at the shown length would leave its beginning
    with FakeServer(lambda *a: json_answer({"error": said}, 401)) as server, pytest.raises(RequestFailed) as caught:
        Endpoint(server.url, api_key_env="MY_KEY").ask("/x", {}, dict)
    assert "k3y" not in str(caught.value) + caught.value.said and len(caught.value.said) <= openai_client.SHOWN
