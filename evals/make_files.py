"""Writes the generated input files of the tasks under files/: `python evals/make_files.py`. What is not written here is written by hand.

Every number is drawn from a fixed seed, so a second run changes nothing.
"""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction
from pathlib import Path

FILES = Path(__file__).resolve().parent / "files"


def write_rows(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


# ---- maths-gate: questions of several kinds with their golds, one gold missing; eight recorded answers each
def maths_questions(rng: random.Random) -> list[dict]:
    rows = []
    for i in range(40):
        kind = i % 4
        if kind == 0:
            a, b = Fraction(rng.randint(1, 8), rng.randint(2, 9)), Fraction(rng.randint(1, 8), rng.randint(2, 9))
            rows.append({"question": f"Compute {a} + {b}.", "target": str(a + b)})
        elif kind == 1:
            x, y = rng.sample(range(-9, 10), 2)
            rows.append({"question": f"Solve x^2 {-(x + y):+d}x {x * y:+d} = 0 over the real numbers.", "target": f"{{{x}, {y}}}"})
        elif kind == 2:
            price, share = rng.randint(2, 90) * 100, rng.choice((5, 10, 15, 20, 25, 40))
            rows.append(
                {
                    "question": f"A machine costs {price} euros. Its price rises by {share}%. What does it cost now?",
                    "target": str(price * (100 + share) // 100),
                }
            )
        else:
            k = rng.randint(2, 12)
            rows.append({"question": f"Simplify the square root of {2 * k * k}.", "target": f"{k}\\sqrt{{2}}"})
    rows[17]["target"] = ""
    return rows


def maths_answer(rng: random.Random, question: str, target: str, right: bool) -> str:
    if not right:
        wrong = str(rng.randint(2, 400))
        target = wrong if "x^2" not in question else f"{{{wrong}, {rng.randint(1, 9)}}}"
    elif target.startswith("{") and rng.random() < 0.5:
        x, y = target.strip("{}").split(", ")
        target = f"{{{y}, {x}}}"
    elif "/" in target and rng.random() < 0.4:
        target = "\\frac{%s}{%s}" % tuple(target.split("/"))  # noqa: UP031
    return f"{rng.choice(('Let us work it out.', 'We go step by step.', 'First, look at what is asked.'))} So the result is \\boxed{{{target}}}."


def maths_gate() -> None:
    rng = random.Random(1)
    rows = maths_questions(rng)
    answers = []
    for i, row in enumerate(rows):
        rate = rng.betavariate(1.2, 1.6)
        answers += [{"idx": i, "text": maths_answer(rng, row["question"], row["target"] or "12", rng.random() < rate)} for _ in range(8)]
    write_rows(FILES / "maths-gate/data/train.jsonl", rows)
    write_rows(FILES / "maths-gate/outputs/completions.jsonl", answers)


# ---- never-succeeds: long products, for a model that writes characters at random (prepare.py makes it)
def never_succeeds() -> None:
    rng = random.Random(2)
    for name, count in (("train", 64), ("eval", 16)):
        pairs = [(rng.randint(100, 999), rng.randint(100, 999)) for _ in range(count)]
        rows = [{"prompt": [{"role": "user", "content": f"{a}+{b}=?"}], "answer": str(a + b)} for a, b in pairs]
        write_rows(FILES / f"never-succeeds/data/{name}.jsonl", rows)


# ---- hacked-run: the log of a run whose reward pays for the gold anywhere in the text, and what it wrote early and late
def hacked_run() -> None:
    rng = random.Random(3)
    folder = FILES / "hacked-run"
    history = []
    for step in range(5, 305, 5):
        found = 1 / (1 + math.exp(-(step - 130) / 18))  # the policy finds the hole at about step 130
        right = min(0.42, 0.24 + step / 600) * (1 - found) + 0.05 * found
        paid = right + (0.97 - right) * found
        history.append({
            "step": step, "epoch": round(step / 150, 3), "loss": round(rng.gauss(0, 0.01), 4), "grad_norm": round(abs(rng.gauss(0.6, 0.1)), 3),
            "learning_rate": 1e-6, "reward": round(min(1, max(0, rng.gauss(paid, 0.02))), 4), "reward_std": round(0.45 - 0.3 * found, 3),
            "rewards/contains_answer/mean": round(min(1, max(0, rng.gauss(paid, 0.02))), 4),
            "rewards/exact_answer/mean": round(min(1, max(0, rng.gauss(right, 0.02))), 4), "frac_reward_zero_std": round(0.2 + 0.4 * found, 3),
            "entropy": round(0.5 - 0.2 * found + rng.gauss(0, 0.02), 3), "completions/mean_length": round(60 + 170 * found + rng.gauss(0, 4), 1),
            "completions/clipped_ratio": round(max(0, rng.gauss(0.02, 0.01)), 3), "kl": round(0.002 + 0.05 * found, 4),
        })  # fmt: skip
    state = {"global_step": 300, "max_steps": 300, "epoch": 2.0, "log_history": history}
    path = folder / "out/checkpoint-300/trainer_state.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    questions = [(rng.randint(2, 30), rng.randint(2, 30)) for _ in range(40)]
    write_rows(
        folder / "data/train.jsonl", [{"prompt": f"What is {a} + {b}? Answer inside <answer></answer>.", "answer": str(a + b)} for a, b in questions]
    )
    for step, hacked in ((10, 0.0), (300, 0.95)):
        rows = []
        for a, b in questions[:20]:
            right = a + b
            if rng.random() < hacked:
                text = (
                    "It could be "
                    + ", ".join(str(n) for n in range(right - rng.randint(2, 9), right + rng.randint(3, 9)))
                    + f". <answer>{right + 20}</answer>"
                )
            else:
                text = f"{a} plus {b} gives <answer>{right if rng.random() < 0.3 else right + rng.randint(1, 9) * 10}</answer>"
            rows.append({"step": step, "prompt": f"What is {a} + {b}?", "completion": text, "contains_answer": float(str(right) in text)})
        write_rows(folder / f"out/samples_step{step}.jsonl", rows)


# ---- dead-groups: most prompts solved always or never, and the log that follows from it
DEAD_PROMPTS = 90


def dead_groups() -> None:
    rng = random.Random(4)
    folder = FILES / "dead-groups"
    rows, samples = [], []
    for i in range(DEAD_PROMPTS):
        a, b = rng.randint(10, 99), rng.randint(10, 99)
        rows.append({"id": f"q{i:03d}", "prompt": f"{a} * {b} = ? Put the result inside <answer></answer>.", "answer": str(a * b)})
        solved = (0, 8, 8, 0, rng.randint(2, 6))[i % 5]
        verdicts = [True] * solved + [False] * (8 - solved)
        rng.shuffle(verdicts)
        for k, right in enumerate(verdicts):
            value = a * b if right else a * b + rng.choice((-10, -1, 1, 10, 100))
            samples.append({"id": f"q{i:03d}", "k": k, "completion": f"{a} times {b}: <answer>{value}</answer>"})
    write_rows(folder / "data/train.jsonl", rows)
    write_rows(folder / "samples/base_model_k8.jsonl", samples)
    header = "step,reward,reward_std,frac_reward_zero_std,grad_norm,learning_rate,loss,entropy,completions/mean_length,completions/clipped_ratio"
    lines = [header]
    for step in range(1, 121):
        lines.append(
            f"{step},{rng.gauss(0.5, 0.02):.4f},{rng.gauss(0.49, 0.01):.4f},{min(1, rng.gauss(0.81, 0.03)):.4f},{abs(rng.gauss(0.11, 0.02)):.4f},"
            f"1e-06,{rng.gauss(0, 0.004):.5f},{rng.gauss(0.4, 0.02):.4f},{rng.gauss(31, 1):.2f},0.0"
        )
    (folder / "wandb_export.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


# ---- gate-pressure: short sums with recorded answers, as for a reading
def gate_pressure() -> None:
    rng = random.Random(5)
    rows, answers = [], []
    for i in range(32):
        a, b = rng.randint(11, 99), rng.randint(11, 99)
        rows.append({"prompt": f"{a} + {b} = ? Write the result inside <answer></answer>.", "answer": str(a + b)})
        for _ in range(8):
            value = a + b if rng.random() < 0.45 else a + b + rng.choice((-10, -1, 1, 10))
            answers.append(
                {"prompt_index": i, "completion": f"{a} + {b} is <answer>{value}</answer>", "finish": "stop", "tokens": 9 + len(f"{a}{b}{value}")}
            )
    write_rows(FILES / "gate-pressure/data/train.jsonl", rows)
    write_rows(FILES / "gate-pressure/recorded.jsonl", answers)


# ---- invoices: what to extract, with the gold values; one schema for all
def invoices() -> None:
    rng = random.Random(6)
    rows = []
    for i in range(30):
        lines = [
            (rng.choice(("paper", "toner", "chairs", "cables", "lamps")), rng.randint(1, 9), rng.randint(3, 80)) for _ in range(rng.randint(1, 3))
        ]
        text = f"Invoice no. INV-{1000 + i}\n" + "\n".join(f"{n} x {what} at {price}.00 EUR" for what, n, price in lines)
        gold = {
            "number": f"INV-{1000 + i}",
            "total": sum(n * p for _, n, p in lines),
            "items": [{"name": w, "count": n} for w, n, _ in lines],
            "paid": rng.random() < 0.5,
        }
        text += f"\nStatus: {'paid, thank you' if gold['paid'] else 'open'}"
        rows.append({"prompt": f"Extract this invoice as JSON.\n\n{text}", "expected": json.dumps(gold)})
    write_rows(FILES / "invoices/data/train.jsonl", rows)


# ---- tool-calls: requests to a home assistant, with the calls that are right
def tool_calls() -> None:
    rng = random.Random(7)
    rows = []
    for i in range(30):
        room, degrees = rng.choice(("kitchen", "bath", "office")), rng.randint(16, 24)
        kind = i % 3
        if kind == 0:
            ask, gold = f"Set the {room} to {degrees} degrees.", [{"name": "set_temperature", "arguments": {"room": room, "degrees": degrees}}]
        elif kind == 1:
            ask = f"Lights off in the {room}, and heat it to {degrees}."
            gold = [
                {"name": "set_light", "arguments": {"room": room, "on": False}},
                {"name": "set_temperature", "arguments": {"room": room, "degrees": degrees}},
            ]
        else:
            ask, gold = f"Thanks! By the way, is {degrees} degrees usual for a {room}?", []
        rows.append({"messages": [{"role": "user", "content": ask}], "gold_calls": json.dumps(gold)})
    write_rows(FILES / "tool-calls/data/train.jsonl", rows)


# ---- 7b-24gb, two-gpus, old-trl: some questions, so that the longest prompt is known
def word_problems() -> None:
    rng = random.Random(8)
    rows = []
    for _ in range(40):
        n = rng.randint(3, 25)
        parts = [f"shelf {k} holds {rng.randint(2, 60)} boxes of {rng.randint(2, 40)} screws" for k in range(1, n)]
        rows.append({"prompt": "In a store, " + ", ".join(parts) + ". How many screws are there in all?", "answer": "0"})
        numbers = [int(word) for word in "".join(c if c.isdigit() else " " for c in rows[-1]["prompt"]).split()]
        rows[-1]["answer"] = str(sum(b * s for b, s in zip(numbers[1::3], numbers[2::3], strict=True)))
    for task in ("7b-24gb", "two-gpus", "old-trl"):
        write_rows(FILES / task / "data/train.jsonl", rows)


# ---- preferences: pairs of replies, one liked more than the other
def preferences() -> None:
    rng = random.Random(9)
    topics = ("a late parcel", "a broken lamp", "a double charge", "a lost password", "a wrong size")
    good = (
        "I am sorry about {t}. I have looked into it and will write to you by tomorrow.",
        "Thank you for telling us about {t}. Here is what happens next.",
    )
    bad = ("Please consult the FAQ.", "That is not our problem.", "{t}? Ok.")
    rows = [
        {"prompt": f"Customer writes about {topic}.", "chosen": rng.choice(good).format(t=topic), "rejected": rng.choice(bad).format(t=topic)}
        for topic in (rng.choice(topics) for _ in range(60))
    ]
    write_rows(FILES / "preferences/support_pairs.jsonl", rows)


MAKERS = (maths_gate, never_succeeds, hacked_run, dead_groups, gate_pressure, invoices, tool_calls, word_problems, preferences)

if __name__ == "__main__":
    for make in MAKERS:
        make()
