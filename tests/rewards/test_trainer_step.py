"""One step of TRL's real trainer with the rewards as its functions, on the demo's untaught network."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from grpo_rlvr.rewards import (
    choice_reward,
    correctness_reward,
    make_overlong_reward,
    make_rubric_judge_reward,
    tool_call_reward,
    with_length_penalty,
)


@pytest.mark.model
@pytest.mark.filterwarnings("default")
def test_the_trainer_takes_a_step_with_each_reward(untaught_model: Path, tmp_path: Path):
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    questions: list[str] = []

    def by_length(question: str) -> str:
        questions.append(question)
        return f'{{"verdict": "{"pass" if len(questions) % 2 else "fail"}"}}'

    rewards = [
        choice_reward, tool_call_reward, with_length_penalty(correctness_reward, 4), make_overlong_reward(8, 6),
        make_rubric_judge_reward(by_length, "Answers the question."), make_rubric_judge_reward(by_length, "Is short.", asynchronous=True),
    ]  # fmt: skip
    rows = [{"prompt": [{"role": "user", "content": f"{i}+1=?"}], "answer": "B", "expected_calls": []} for i in range(4)]
    settings = GRPOConfig(
        output_dir=str(tmp_path), use_cpu=True, bf16=False, max_steps=1, per_device_train_batch_size=8, num_generations=4, max_completion_length=8,
        report_to=[], logging_steps=1, save_strategy="no", learning_rate=1e-3,
    )  # fmt: skip
    tokenizer = AutoTokenizer.from_pretrained(untaught_model)
    trainer = GRPOTrainer(
        model=str(untaught_model), reward_funcs=rewards, args=settings, train_dataset=Dataset.from_list(rows), processing_class=tokenizer
    )
    trainer.train()
    log = next(entry for entry in trainer.state.log_history if "reward" in entry)
    means = {reward.__name__: log[f"rewards/{reward.__name__}/mean"] for reward in rewards}
    assert len(means) == len(rewards) and all(math.isfinite(mean) for mean in means.values())
    # Random letters: no option is chosen, no call is made, the limit is reached by nearly all, and the judges say what they say.
    assert means["choice_reward"] == 0.0 == means["correctness_reward_within_4_tokens"]
    assert means["tool_call_reward"] > 0.5 and -1 <= means["overlong_reward"] < 0
    assert {round(means[r.__name__], 3) for r in rewards[4:]} <= {0.375, 0.5, 0.625} and len(questions) >= 2
