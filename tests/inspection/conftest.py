"""A small project on disk: sums with a gold answer, completions recorded as if a model had been sampled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

CONFIG = """\
model: {{name_or_path: {model}}}
data: {{train: train.jsonl}}
rewards:
{rewards}
inspection: {{prompts: 4, samples_per_prompt: 4, min_read: {min_read}, read: {read}{more}}}
grpo: {{num_generations: 4, max_completion_length: 16{grpo}}}
run: {{folder: runs/one}}
"""
HONEST = "  - {use: exact}"
# Pays for the tag and for every '=', whatever the answer is; agrees perfectly with correctness in honest samples.
STEPS = """
def steps(completions, **columns):
    return [0.5 * ("<answer>" in c) + 0.1 * c.count("=") for c in completions]
"""


def completion(answer: object, work: str = "") -> str:
    return f"<reasoning>{work}</reasoning><answer>{answer}</answer>"


@dataclass
class Project:
    """A folder with a config; `write` changes the config, `record` writes completions."""

    folder: Path

    @property
    def config_path(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def inspection(self) -> Path:
        return self.folder / "runs" / "one" / "inspection"

    def write(self, rewards: str = HONEST, model: str = "org/model", min_read: int = 4, read: int = 6, more: str = "", grpo: str = ""):
        from grpo_rlvr.config import load_config

        text = CONFIG.format(rewards=rewards, model=model, min_read=min_read, read=read, more=more, grpo=grpo)
        self.config_path.write_text(text)
        return load_config(self.config_path)

    def data(self, count: int = 6) -> None:
        rows = [{"prompt": f"{a}+5=?", "answer": str(a + 5)} for a in range(10, 10 + count)]
        (self.folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def record(self, per_prompt: list[list[object]] | None = None) -> Path:
        """Completions of the first rows; an item is an offset from the right answer. By default 2 of 4 are right for each of 4 prompts."""
        per_prompt = per_prompt or [[0, 0, 1, -1]] * 4
        path = self.folder / "recorded.jsonl"
        rows = [
            {"prompt_index": i, "completion": completion(15 + i + offset, f"try {k}"), "finish": "stop", "tokens": 10 + k}
            for i, offsets in enumerate(per_prompt)
            for k, offset in enumerate(offsets)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.data()
    (tmp_path / "steps.py").write_text(STEPS)
    return made


@pytest.fixture
def label_all():
    """Label selected samples by the truth (or by `judge(sample)`)."""
    from grpo_rlvr.inspection.labels import append_label
    from grpo_rlvr.inspection.select import load_selection

    def truth(sample: dict) -> str:
        return "pass" if f"<answer>{sample['columns']['answer']}</answer>" in sample["completion"] else "fail"

    def label(folder: Path, judge=truth, kind: str = "human", reviewer: str = "ada", count: int | None = None) -> None:
        for sample in load_selection(folder)[:count]:
            append_label(folder, sample["sample_id"], judge(sample), reviewer, kind)

    return label
