"""A 0.1-million-parameter Qwen2 that is built and taught sums on the spot.

Teaching mixes two styles: most demonstrations give the answer directly, which so small a network mostly gets wrong; the
rest work the columns first, which it gets right. The taught model therefore succeeds sometimes, and GRPO finds the style
that succeeds: reward and length rise together. The skill is put there by teaching; RL selects and sharpens it.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grpo_rlvr.demo.sums import Sum, draw, oracle, worked_steps
from grpo_rlvr.errors import Problem, UserError

TAGS = ("<reasoning>", "</reasoning>", "<answer>", "</answer>")
SPECIALS = ("<pad>", "<eos>", "<|user|>", "<|assistant|>", "<|system|>")
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + ('<eos>' if m['role'] == 'assistant' else '') }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


@dataclass(frozen=True)
class Lesson:
    """How the model is taught. Steps are optimizer steps at `batch` demonstrations each."""

    digits: int = 2
    batch: int = 64
    learning_rate: float = 4e-3
    direct_share_first: float = 0.1  # while the skill is being learned
    direct_share: float = 0.65  # in the final mix, which decides how often the model works the columns
    skill_target: float | None = 0.8  # accuracy with worked columns that ends the first phase (a fixed step count is a lottery); None: direct only
    mix_steps: int = 150
    max_steps: int = 2500
    guesses: bool = False  # direct answers are digits at random, so that only worked columns can be right


def max_completion_tokens(digits: int) -> int:
    """Room for the worked columns, the answer and the end token, with a little to spare."""
    return 13 + 8 * digits


def build_tokenizer():
    """A character tokenizer; the four tags are ordinary tokens, so that decoding keeps them."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    characters = string.ascii_letters + string.digits + string.punctuation + " \n"
    vocabulary = {token: i for i, token in enumerate([*SPECIALS, *characters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.add_tokens(list(TAGS))
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>", padding_side="left")  # noqa: S106  (tokens of text)
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_model(tokenizer, seed: int):
    """A random Qwen2 with 2 layers of width 64; head size 32, which vLLM's kernels accept."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=-(-len(tokenizer) // 16) * 16, hidden_size=64, intermediate_size=192, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=True, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
    )  # fmt: skip
    return Qwen2ForCausalLM(config)


def teach(folder: Path, lesson: Lesson, seed: int, progress: Callable[[int, int, str], None] = lambda done, total, text: None) -> dict:
    """Build, teach and save the model and its tokenizer to `folder`.

    Args:
        progress: called as `progress(step, total_steps_so_far_estimated, text)`.

    Returns:
        `steps`, `loss` and `skill` (accuracy when made to work the columns; None if that is not taught).

    Raises:
        UserError: the skill was not reached within `lesson.max_steps`.
    """
    import torch

    tokenizer = build_tokenizer()
    model = build_model(tokenizer, seed)
    rng = random.Random(seed)  # noqa: S311  (draws sums)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lesson.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    step, skill, loss = 0, None, None
    last = None if lesson.skill_target is not None else lesson.mix_steps
    while last is None or step < last:
        if last is None and step and step % 50 == 0:
            skill = _skill(model, tokenizer, lesson)
            progress(step, step + 200, f"teaching: column sums {skill:.0%} right")
            if skill >= lesson.skill_target:
                last = step + lesson.mix_steps
            elif step >= lesson.max_steps:
                message = f"the tiny model learned only {skill:.0%} of its column sums in {step} steps"
                raise UserError("demo", Problem("teaching", message, "try another --seed"))
        mixing = last is not None
        rate = lesson.learning_rate * min(1.0, (step + 1) / 50)
        rate *= max(0.05, (last - step) / lesson.mix_steps) if mixing else 1.0
        for group in optimizer.param_groups:
            group["lr"] = rate
        rows = [_demonstration(rng, tokenizer, lesson, lesson.direct_share if mixing else lesson.direct_share_first) for _ in range(lesson.batch)]
        loss = _loss(model, tokenizer, rows)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 10 == 0:
            progress(step, last or step + 200, "teaching")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {"steps": step, "loss": float(loss.detach()), "skill": skill}


def _demonstration(rng: random.Random, tokenizer, lesson: Lesson, direct_share: float) -> tuple[list[int], list[int]]:
    """Token ids of a prompt and of its demonstration."""
    task = draw(rng, lesson.digits, held_out=False)
    if rng.random() < direct_share:
        answer = str(rng.randint(10 ** (lesson.digits - 1), 2 * 10**lesson.digits)) if lesson.guesses else task.answer
        text = f"<answer>{answer}</answer>"
    else:
        text = f"<reasoning>{worked_steps(task, lesson.digits)}</reasoning><answer>{task.answer}</answer>"
    return _encode(tokenizer, f"<|user|>{task.question}<|assistant|>"), _encode(tokenizer, text + "<eos>")


def _encode(tokenizer, text: str) -> list[int]:
    return tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids


def _loss(model, tokenizer, rows):
    """Mean cross-entropy of the demonstrations' tokens; short and long rows go in two batches to save padding."""
    import torch

    rows = sorted(rows, key=lambda row: len(row[0]) + len(row[1]))
    lengths = [len(p) + len(d) for p, d in rows]
    cut = next((i for i in range(1, len(rows)) if lengths[i] - lengths[i - 1] > 8), len(rows))
    tokens = sum(len(d) for _, d in rows)
    total = torch.zeros(())
    for part in (rows[:cut], rows[cut:]):
        if not part:
            continue
        width = max(len(p) + len(d) for p, d in part)
        ids = torch.full((len(part), width), tokenizer.pad_token_id)
        labels = torch.full((len(part), width), -100)
        for i, (prompt, demonstration) in enumerate(part):
            ids[i, : len(prompt) + len(demonstration)] = torch.tensor(prompt + demonstration)
            labels[i, len(prompt) : len(prompt) + len(demonstration)] = torch.tensor(demonstration)
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
        total = total + torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=-100, reduction="sum"
        )
    return total / tokens


def _skill(model, tokenizer, lesson: Lesson, count: int = 128) -> float:
    """Accuracy on training sums when the completion is made to begin with `<reasoning>`."""
    import torch

    rng = random.Random(77)  # noqa: S311  (draws sums)
    tasks: list[Sum] = [draw(rng, lesson.digits, held_out=False) for _ in range(count)]
    prompts = [f"<|user|>{t.question}<|assistant|><reasoning>" for t in tasks]
    batch = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False, return_token_type_ids=False)
    model.eval()
    # The probe must not disturb the random stream of the teaching.
    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(77)
        out = model.generate(**batch, max_new_tokens=max_completion_tokens(lesson.digits), do_sample=True, temperature=1.0, top_k=0, top_p=1.0)
    model.train()
    texts = tokenizer.batch_decode(out[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
    return sum(oracle(text, task.answer) for text, task in zip(texts, tasks, strict=True)) / count
