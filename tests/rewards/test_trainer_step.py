"""One step of TRL's real trainer with the rewards as its functions, on the demo's untaught network."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from grpo_rlvr.rewards import (
    choice_reward,
    correctness_reward,
    format_reward,
    make_overlong_reward,
    make_rubric_judge_reward,
    math_reward,
    partial_format_reward,
    schema_reward,
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
        make_rubric_judge_reward(by_length, "Answers the question."), make_rubric_judge_reward(by_length, "Is short.", asynchronous=True),
        choice_reward, tool_call_reward, with_length_penalty(correctness_reward, 4), make_overlong_reward(8, 6), format_reward,
        partial_format_reward, correctness_reward, math_reward, schema_reward,
    ]  # fmt: skip
    schema = '{"type": "object", "required": ["city"]}'  # as text: Arrow would fill missing keys
    rows = [{"prompt": [{"role": "user", "content": f"{i}+1=?"}], "answer": "B", "expected_calls": [], "output_schema": schema} for i in range(4)]
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
    never = (choice_reward, correctness_reward, format_reward, partial_format_reward, math_reward, schema_reward, rewards[4])
    assert {reward.__name__: means[reward.__name__] for reward in never} == {reward.__name__: 0.0 for reward in never}
    assert means["tool_call_reward"] > 0.5 and -1 <= means["overlong_reward"] < 0
    assert {round(means[r.__name__], 3) for r in rewards[:2]} <= {0.375, 0.5, 0.625} and len(questions) >= 2
