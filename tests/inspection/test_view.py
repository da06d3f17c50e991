from __future__ import annotations

import json

import pytest
from grpo_rlvr.inspection.page import json_for_html, policy, scramble, served_page
from grpo_rlvr.inspection.view import messages, parts, sample_view


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("<think>a</think> so \\boxed{4}.", ["reasoning", "final", "answer", "final"]),
        ("<answer>3</answer>", ["final", "answer", "final"]),
        ("<think>I never end", ["reasoning"]),
        ("no tags at all", ["final"]),
        ("<answer>1</answer><think>again", ["final", "answer", "final", "reasoning"]),
        ("<think>x</think>", ["reasoning"]),
        ("", []),
    ],
)
def test_a_text_is_cut_where_rewards_cut_it_and_nothing_is_lost(text, kinds):
    assert [kind for kind, _ in parts(text)] == kinds
    assert "".join(piece for _, piece in parts(text)) == text


def test_of_a_conversation_the_message_that_rewards_score_is_taken_apart():
    turns = [
        {"role": "assistant", "content": "", "tool_calls": [{"name": "f"}]},
        {"role": "tool", "content": "<answer>9</answer>"},
        {"role": "assistant", "content": [{"type": "text", "text": "<answer>1</answer>"}]},
        "odd",
    ]
    shown = messages(turns, scored=True)
    assert [m["scored"] for m in shown] == [False, False, False, True]  # what is no message is an assistant's, as rewards read it
    shown = messages(turns[:3], scored=True)
    assert [m["role"] for m in shown] == ["assistant", "tool", "assistant"] and [m["scored"] for m in shown] == [False, False, True]
    assert '"tool_calls"' in shown[0]["parts"][0][1] and shown[1]["parts"] == [["text", "<answer>9</answer>"]]
    assert shown[2]["parts"][1] == ["answer", "1"]


def test_a_view_has_the_gold_that_rewards_read_and_says_what_was_cut_off():
    sample = {"sample_id": "a", "prompt": "p", "completion": "half", "columns": {"answer": 4, "row_id": "t:1"}, "finish": "length", "tokens": 1234}
    view = sample_view(sample, ["answer"])
    assert view["gold"] == [["answer", "4"]] and view["facts"] == ["cut off at the length limit", "1,234 tokens", "no marked answer"]
    assert sample_view({**sample, "finish": "stop", "tokens": None}, ["other"])["gold"] == [["answer", "4"], ["row_id", "t:1"]]


def test_json_in_a_page_cannot_end_its_element():
    hostile = "</script><!--<script>\u2028\u2029\x00\ud800]]>&lt;"
    text = json_for_html({"a": hostile})
    assert not set("<>&\u2028\x00") & set(text) and text.isascii() and json.loads(text) == {"a": hostile}


def test_the_policy_holds_for_the_page_as_it_is_served():
    import base64
    import hashlib
    import re

    page = served_page().decode()
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1]
        assert f"{directive} 'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'" in policy()
    assert not re.search(r"\son\w+=|style=|javascript:|innerHTML|insertAdjacent|document\.write|eval\(", page)


def test_scrambled_scores_cannot_be_read_at_a_glance():
    text = json.dumps({"verdict": "pass", "total": 1.0})
    hidden = scramble(text, "ab12")
    assert "pass" not in hidden and scramble(text, "ab13") != hidden and scramble(text, "ab12") == hidden
