"""Small projects on disk that the tests share."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import hypothesis
import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# No test is timed: a busy machine is no fault.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# Started in the background of a script, this process may have been told to ignore Ctrl-C, and those that it starts would be too.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]

CONFIG = """\
model: {name_or_path: model}
data: {train: train.jsonl, eval: eval.jsonl}
rewards:
  - {use: exact}
grpo:
  use_cpu: true
  bf16: false
  per_device_train_batch_size: 16
  num_generations: 8
  max_completion_length: 8
  max_steps: 4
  save_steps: 1
run: {folder: run}
"""


@pytest.fixture(autouse=True)
def fresh_accelerate():
    """What one test told accelerate (precision, device) holds for the process; the next test may tell it otherwise."""
    yield
    state = sys.modules.get("accelerate.state")
    if state is not None:
        state.AcceleratorState._reset_state(reset_partial_state=True)
        state.GradientState._reset_state()


def write_rows(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def sums(count: int, first: int = 0) -> list[dict]:
    return [{"prompt": [{"role": "user", "content": f"{i}+1=?"}], "answer": str(i + 1)} for i in range(first, first + count)]


def build(base: Path, *sections: dict) -> list:
    """What `build_rewards` makes of entries of `rewards:` in a config that lies in `base`."""
    from grpo_rlvr.rewards.registry import build_rewards

    full = [SimpleNamespace(**{"weight": 1.0, "args": {}, "required": None, "name": None, **s}) for s in sections]
    return build_rewards(SimpleNamespace(rewards=tuple(full), base=base))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A config with 40 training and 8 held-out sums, and no model."""
    write_rows(tmp_path / "train.jsonl", sums(40))
    write_rows(tmp_path / "eval.jsonl", sums(8, first=900))
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="session")
def untaught_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's network with random weights, saved; it writes characters at random."""
    from grpo_rlvr.demo.tiny import build_model, build_tokenizer

    folder = tmp_path_factory.mktemp("untaught") / "model"
    tokenizer = build_tokenizer()
    build_model(tokenizer, 0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def sandbox_here():
    """The sandbox of this machine. Without one the test is skipped, unless GRPO_RLVR_TEST_SANDBOX=required."""
    from grpo_rlvr.errors import MissingError
    from grpo_rlvr.sandbox import Limits, find_backend

    try:
        return find_backend("bubblewrap", Limits())
    except MissingError as exc:
        if os.environ.get("GRPO_RLVR_TEST_SANDBOX") == "required":
            raise
        pytest.skip(f"no sandbox here: {exc}")
