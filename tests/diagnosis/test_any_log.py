"""Whatever stands in a log: it is read and judged, or there is one clear error; never a crash, never text that acts."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from grpo_rlvr.diagnosis.metrics import read_log
from grpo_rlvr.diagnosis.names import METRICS, OWN
from grpo_rlvr.diagnosis.report import page
from grpo_rlvr.diagnosis.rules import diagnose
from grpo_rlvr.diagnosis.run import read_run
from grpo_rlvr.diagnosis.texts import STATUS_LINES, status, terminal
from grpo_rlvr.errors import UserError
from hypothesis import given, settings

NAMES = [m.name.replace("<name>", "math") for m in (*METRICS, *OWN)] + [
    "lr",
    "eval_reward",
    "eval_rewards/math/mean",
    "nonfinite",
    "completion_length",
    "rewards/x",
]
values = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.integers(-(10**30), 10**30), st.sampled_from([0.0, 1.0, 0.5, 1e308, -1e308, 10**400]),
    st.none(), st.booleans(), st.text(max_size=5), st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), st.floats(), max_size=2),
)  # fmt: skip
keys = st.one_of(st.sampled_from(NAMES), st.sampled_from(["step", "global_step", "train_runtime"]), st.text(max_size=8))


@st.composite
def logs(draw):
    """Lines that are mostly regular, as logs are, with some wild ones between."""
    columns = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=12, unique=True))
    levels = {name: draw(values) for name in columns}
    rows = []
    for i in range(draw(st.integers(0, 60))):
        rows.append({"step": i + 1, **{name: v * (1 + (i * 7 % 5) / 10) if isinstance(v, float) else v for name, v in levels.items()}})
    for _ in range(draw(st.integers(0, 3))):
        rows.insert(draw(st.integers(0, len(rows))), draw(st.dictionaries(keys, values, max_size=4)))
    return rows


@settings(max_examples=150)
@given(logs())
def test_any_log_is_judged_or_refused(rows):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        try:
            run = read_run(path)
        except UserError:
            return
    run.watched = True
    answer = diagnose(run)
    json.dumps(answer.to_json())
    text = terminal(run, answer, True) + status(run, answer, "now")
    assert len(status(run, answer, "now").splitlines()) <= STATUS_LINES and "\x1b" not in text
    drawn = page(run, answer)
    assert drawn.count("<script") == 2 and drawn.endswith("</html>\n")
    assert "NaN" not in drawn.split('id="data">')[1].split("</script>")[0]


@settings(max_examples=60)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    with tempfile.TemporaryDirectory() as folder:
        for name in ("trainer_state.json", "log.jsonl", "table.csv", "events.out.tfevents.1.host"):
            path = Path(folder) / name
            path.write_bytes(data)
            try:
                read_log(path)
            except UserError as exc:
                assert exc.problems[0].message
