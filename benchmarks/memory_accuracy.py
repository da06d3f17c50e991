#!/usr/bin/env python3
"""How right and how quick the memory plan is: predicted beside measured for published runs, and the command's cold start.

Every point is a public measurement or a published fact with its source in `memory_points.jsonl`; nothing in the formulas was fitted to the
points but the two constants that the table names. Points whose run is not described well enough, or whose code is not what TRL runs, are
listed with the reason. `--points FILE` scores another file of the same form. Beside it stand accelerate's estimate-memory, hf-vram-calc and
the table by size that guides repeat (see memory_peers.py), on the same steps.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from grpo_rlvr.errors import UserError
from grpo_rlvr.memory.catalog import bundled_shape
from grpo_rlvr.memory.estimate import FRAGMENTATION, GIB, estimate
from grpo_rlvr.memory.hardware import find_gpu
from grpo_rlvr.memory.head import head_bytes
from grpo_rlvr.memory.layer import Mode
from grpo_rlvr.memory.plan import make_plan
from grpo_rlvr.memory.speed import decode_step_s, speed
from grpo_rlvr.memory.trl_eras import era_of
from grpo_rlvr.memory.workload import Workload
from memory_boundaries import KINDS, Held, held, unscored
from memory_peers import Peer, peers
from memory_tables import markdown, peers_markdown, show

__all__ = ["markdown", "peers_markdown", "whole_result"]

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parent / "scripts"
CUBLAS_GIB = 0.02
GROUPS = {
    "step": "one step, exact config (T4, LoRA and QLoRA, sdpa)",
    "eager": "the same with eager attention (one softmax buffer calibrated)",
    "rl": "RL trainer under FSDP2, dense (gather buffer calibrated)",
    "experts": "RL trainer under FSDP2, mixture of experts (its own expert kernels)",
    "loss": "head and GRPO loss alone",
    "sft": "supervised steps of other trainers",
    "cache": "vLLM: tokens of a stated cache",
    "decode": "decode, tokens/s",
}
EXACT = ("step", "eager", "rl", "loss", "cache")
MEAN_ABSOLUTE, WORST = 0.05, 0.15  # the bounds on exact-config points; beyond them, or with a boundary on the wrong side, the exit code is 1


class Sft(Workload):
    """A supervised step: cross-entropy over all tokens."""

    head = "sft"


class Fitcheck(Sft):
    """Plain PEFT without TRL or autocast: adapters in float32, a quantised model's other weights in float32."""

    adapter_width = 4


def training_peak(w: Workload, allocated: bool) -> float:
    """GiB that torch reports: allocated, or reserved with the pool's losses, both without the CUDA context."""
    phase = next(p for p in estimate(w).phases if p.name == "training step")
    own = sum(v for k, v in phase.terms.items() if k not in ("context", "fragmentation")) / GIB
    return own + CUBLAS_GIB if allocated else own * (1 + FRAGMENTATION)


def predict(point: dict[str, Any]) -> tuple[str, float, float]:
    """(group, predicted, measured).

    Raises:
        LookupError: this point cannot be predicted; the message says why.
    """
    kind = point["kind"]
    if kind == "train_step_peak":
        return _step(point)
    if kind == "loss_peak":
        return _loss(point)
    if kind == "vllm_kv_log":
        return _cache(point)
    if kind == "decode_tps":
        return _decode(point)
    reasons = {
        **dict.fromkeys(KINDS, "no peak to compare: held to the plan's verdict, or not with the reason, below"),
        "rl_throughput": "Megatron; mean lengths only",
        "ratio": "no absolute size",
    }
    raise LookupError(reasons.get(kind, "unknown kind of point"))


def shape_of(point: dict[str, Any]):
    found = bundled_shape(str(point.get("model", "")))
    if found is None:
        raise LookupError("the model's shape is not bundled")
    return found


def _step(p: dict[str, Any]) -> tuple[str, float, float]:
    measured = p.get("peak_allocated_gib")
    if not measured:
        raise LookupError("it failed for another reason than memory" if "error" in p else "no peak given")
    if "fitcheck" in p["source"]:
        four = "qlora" in p["method"]
        w = Fitcheck(
            shape_of(p), find_gpu("t4"), dtype="float32" if four else "float16", quantization="nf4" if four else "none", lora_rank=p["lora_rank"],
            targets=tuple(p["lora_targets"]), batch=p["batch"], prompt=0, completion=p["seq"], attention=p["attn"], autocast=False,
        )  # fmt: skip
        return ("eager" if p["attn"] == "eager" else "step"), training_peak(w, allocated=True), measured
    if "prime-rl" in p["source"]:
        return _prime(p, measured)
    raise LookupError("other levers (compile, offload, optimizer in backward) than TRL has")


def _prime(p: dict[str, Any], measured: float) -> tuple[str, float, float]:
    shape, rl = shape_of(p), "RL" in p["task"]
    if rl and shape.name.endswith("Qwen3-0.6B") and p["seq"] == 65536 and p["method"] == "full":
        raise LookupError("measured below its own 16k row: a later version of the trainer")
    w = (Workload if rl else Sft)(
        shape, find_gpu("h200"), count=p["n_gpus"], sharding="fsdp2", lora_rank=16 if "lora" in p["method"] else 0, batch=p["batch"], accumulation=2,
        prompt=0, completion=p["seq"], attention="flash",
    )  # fmt: skip
    predicted = training_peak(w, allocated=False)
    if p.get("activation_offload"):  # the checkpoints are on the host
        predicted -= (1 + FRAGMENTATION) * shape.layers * p["batch"] * p["seq"] * shape.hidden * 2 / GIB
    return ("sft" if not rl else "experts" if shape.experts else "rl"), predicted, measured


def _loss(p: dict[str, Any]) -> tuple[str, float, float]:
    sizes = dict(part.split("=") for part in p["model"].split())
    hidden, vocab = int(sizes["H"]), int(sizes["V"])
    if p["method"] != "torch":
        raise LookupError("another kernel")
    tokens = p["batch"] * p["completion"]
    head = head_bytes("logits", hidden, vocab, Mode(2, autocast=False), tokens, tokens).train
    # Four heads in bf16 (two providers, policy and reference), and the gradient that stays from one repetition to the next.
    return "loss", (head + 5 * vocab * hidden * 2) / GIB, p["peak_allocated_gib"]


def _cache(p: dict[str, Any]) -> tuple[str, float, float]:
    if not (p.get("available_kv_gib") and p.get("kv_tokens")):
        raise LookupError("no cache size and token count together")
    shape = bundled_shape(p["model"].removesuffix("-FP8"))
    if shape is None:
        raise LookupError("the model's shape is not bundled")
    return "cache", p["available_kv_gib"] * GIB / shape.kv_bytes(100_000, 2, p["tp"]) * 100_000, p["kv_tokens"]


DECODE_WIDTHS = {"NVFP4": 0.5625, "MXFP4": 0.53, "FP8": 1.0, "BF16": 2.0}


def _decode(p: dict[str, Any]) -> tuple[str, float, float]:
    if p["dtype"] not in DECODE_WIDTHS or "HF" in p["engine"] or p["gpu"].startswith("2x"):
        raise LookupError("another engine or format")
    n = p["concurrency"]
    w = Workload(shape_of(p), find_gpu(p["gpu"]), vllm="colocate")
    return "decode", n / decode_step_s(w, n, 1024, DECODE_WIDTHS[p["dtype"]]), p["tokens_per_s"]


# ---- verdicts of described runs

# TRL's examples/notebooks/grpo_trl_lora_qlora.ipynb, its table of models on one T4
NOTEBOOK = (
    ("p185", "Qwen/Qwen2-7B-Instruct", "fits"), ("p186", "Qwen/Qwen2.5-7B-Instruct", "fits"), ("p187", "Qwen/Qwen3-8B", "fits"),
    ("p188", "meta-llama/Llama-3.2-3B-Instruct", "fits"), ("p189", "meta-llama/Llama-3.1-8B-Instruct", "fits"),
    ("note", "Qwen/Qwen3-14B", "out of memory"),
)  # fmt: skip


def boundaries() -> list[tuple[str, str, Workload]]:
    """(run, what was seen, the run as a workload) of published runs that fitted or did not."""
    old = era_of("0.16")
    qwen, math = bundled_shape("Qwen/Qwen2.5-1.5B-Instruct"), bundled_shape("Qwen/Qwen2.5-Math-7B")
    lengths = {"prompt": 512, "completion": 1024, "era": old}
    demo = Workload(
        qwen, find_gpu("h100"), count=8, sharding="zero2", dtype="bfloat16", batch=16, accumulation=4, steps_per_generation=4, vllm="server",
        server_gpus=1, **lengths,
    )  # fmt: skip
    seven = Workload(
        math, find_gpu("h100"), count=7, sharding="zero3", dtype="bfloat16", batch=1, accumulation=4, vllm="colocate", utilization=0.3, context=4096,
        **lengths,
    )  # fmt: skip
    lone = Workload(
        bundled_shape("Qwen/Qwen2.5-7B-Instruct"), find_gpu("h100"), batch=1, generations=3, vllm="colocate", utilization=0.7, **lengths
    )  # fmt: skip
    # The notebook's prompts are not stated: 256 tokens assumed.
    notebook = {"quantization": "nf4", "lora_rank": 32, "optimizer": "paged_adamw_8bit", "prompt": 256, "completion": 256, "era": era_of("1.9"),
                "liger": True}  # fmt: skip
    t4 = [
        (f"{point} {name.rpartition('/')[2]}, T4, QLoRA, 8 x 256", seen, Workload(bundled_shape(name), find_gpu("t4"), **notebook))
        for point, name, seen in NOTEBOOK
    ]
    return [
        *t4,
        ("p145 Qwen2.5-1.5B, 8 x H100, 16 x (512 + 1024)", "fits", demo),
        ("p146 Qwen2.5-1.5B, 8 x H100, 16 x (1024 + 2048)", "fits", dataclasses.replace(demo, prompt=1024, completion=2048, beta=0.01)),
        ("p236 Qwen2.5-Math-7B, 7 x 80 GB, ZeRO-3, share 0.3", "fits", seven),
        ("p240 Qwen2.5-7B, 80 GB, share 0.7", "out of memory", lone),
    ]


def verdicts() -> list[tuple[str, str, str]]:
    """(run, what was seen, our verdict)."""
    return [(name, seen, make_plan(w).verdict) for name, seen, w in boundaries()]


# ---- other tools, and training times, on the same points


def compare(points: list[dict[str, Any]], others: list[Peer]) -> dict[str, dict[str, Any]]:
    """Errors of the plan and of others on the same exact-config training steps of whole models, GiB a GPU. What they spread is the total over
    the GPUs, which is the best that can be said for them."""
    errors: dict[str, list[float]] = {"memory_plan.py": [], **{p.name: [] for p in others}}
    for point in points:
        try:
            group, predicted, measured = predict(point)
        except (LookupError, UserError, KeyError):
            continue
        if group not in ("step", "eager", "rl"):
            continue
        method = "qlora" if "qlora" in point["method"] else "lora" if "lora" in point["method"] else "full"
        errors["memory_plan.py"].append(predicted / measured - 1)
        for peer in others:
            total = peer.gib(shape_of(point), method, point.get("lora_rank", 16))
            errors[peer.name].append(total / point.get("n_gpus", 1) / measured - 1)
    how = {"memory_plan.py": "run", **{p.name: p.how for p in others}}
    return {name: {"how": how[name], **summary(found)} for name, found in errors.items() if found}


def verdicts_of_peers(others: list[Peer]) -> dict[str, int]:
    """On how many of the boundaries each is on the right side: the total over the GPUs that train, held against their memory."""
    return {peer.name: sum(_peer_fits(peer, w) == (seen == "fits") for _, seen, w in boundaries()) for peer in others}


def _peer_fits(peer: Peer, w: Workload) -> bool:
    method = "full" if w.full else "qlora" if w.four_bit else "lora"
    share = 1 - w.utilization if w.vllm == "colocate" and not w.sleep else 1  # in their favour: what vLLM takes is left out
    return peer.gib(w.shape, method, w.lora_rank or 16) / w.world <= w.gpu.plan_gib * share


def training_times(points: list[dict[str, Any]]) -> dict[str, int]:
    """How many measured training times lie within the interval of the plan."""
    inside = total = 0
    for p in points:
        if "prime-rl" not in p["source"] or not p.get("step_s") or "RL" not in p.get("task", ""):
            continue
        gpu = p["gpu"].removeprefix("NVIDIA ").removesuffix(" 80GB HBM3")
        w = Workload(
            shape_of(p), find_gpu(gpu), count=p["n_gpus"], sharding="fsdp2", lora_rank=16 if "lora" in p["method"] else 0, batch=p["batch"],
            accumulation=p["micro_batches"], prompt=0, completion=p["seq"], attention="flash",
        )  # fmt: skip
        interval = speed(w).train_s
        total, inside = total + 1, inside + (interval.low <= p["step_s"] <= interval.high)
    return {"points": total, "inside": inside}


# ---- the command's start


def cold_start(rounds: int) -> dict[str, float]:
    """Seconds of CPU of the command and of what it is measured against, each in a new process; the median."""
    config = HERE.parent / "templates" / "config.yaml"
    plan = [sys.executable, str(SCRIPTS / "memory_plan.py"), str(config), "--gpu", "rtx-4090", "--json"]
    commands = {
        "plan": plan, "fit": [*plan, "--fit", "--set", "model.name_or_path=Qwen/Qwen2.5-7B-Instruct"],
        "import yaml, jsonschema": [sys.executable, "-c", "import yaml, jsonschema"], "python": [sys.executable, "-c", "pass"],
    }  # fmt: skip
    return {name: round(statistics.median(_cpu_s(command) for _ in range(rounds)), 3) for name, command in commands.items()}


def _cpu_s(command: list[str]) -> float:
    import resource

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# ---- the whole


def score(points: list[dict[str, Any]]) -> dict[str, Any]:
    rows, left_out = [], Counter()
    for point in points:
        try:
            group, predicted, measured = predict(point)
        except (LookupError, UserError, KeyError) as exc:
            left_out[str(exc)] += 1
            continue
        rows.append({"id": point.get("id", "?"), "group": group, "predicted": round(predicted, 3), "measured": measured,
                     "error": round(predicted / measured - 1, 4), "run": describe(point)})  # fmt: skip
    groups = {}
    for name, title in GROUPS.items():
        errors = [r["error"] for r in rows if r["group"] == name]
        if errors:
            groups[name] = {"title": title, **summary(errors)}
    exact = [r["error"] for r in rows if r["group"] in EXACT]  # of --points FILE there may be none
    return {"rows": rows, "groups": groups, "exact": summary(exact) if exact else None, "left_out": dict(left_out)}


def right(name: str, seen: str, verdict: str) -> bool:
    """Whether the verdict is on the side that was seen; TIGHT promises nothing and is no NO."""
    return (verdict != "NO") == (seen == "fits")


def failures(result: dict[str, Any]) -> list[str]:
    """What is beyond the bounds; empty if nothing is."""
    exact, found = result["exact"], []
    if exact and exact["mean_absolute"] > MEAN_ABSOLUTE:
        found.append(f"the mean absolute error of exact-config points is {exact['mean_absolute']:.1%}, above {MEAN_ABSOLUTE:.0%}")
    if exact and exact["worst"] > WORST:
        found.append(f"the worst error of exact-config points is {exact['worst']:.1%}, above {WORST:.0%}")
    found += [f"{name}: {seen}, and the plan says {verdict}" for name, seen, verdict in result["verdicts"] if not right(name, seen, verdict)]
    sides = (Held(**side) for side in result["elsewhere"])
    return found + [f"{h.point} {h.run}, {h.sequences} x {h.tokens}: {h.seen}, and the plan says {h.verdict}" for h in sides if not h.right]


def summary(errors: list[float]) -> dict[str, float]:
    sizes = [abs(e) for e in errors]
    return {
        "points": len(errors), "mean": round(statistics.mean(errors), 4), "mean_absolute": round(statistics.mean(sizes), 4),
        "worst": round(max(sizes), 4),
        "within_5_percent": sum(s <= 0.05 for s in sizes),
    }  # fmt: skip


def describe(p: dict[str, Any]) -> str:
    parts = [p.get("model", ""), p.get("gpu", ""), p.get("method", p.get("dtype", "")), p.get("attn", "")]
    if p.get("seq"):
        parts.append(f"{p.get('batch', 1)} x {p['seq']}")
    return ", ".join(str(x) for x in parts if x)


def whole_result(points: list[dict[str, Any]], others: list[Peer]) -> dict[str, Any]:
    """Everything but the cold start."""
    result = score(points)
    result["verdicts"], result["elsewhere"] = verdicts(), [vars(side) for side in held(points)]
    told = {name.split()[0] for name, _, _ in result["verdicts"]} | {side["point"] for side in result["elsewhere"]}
    result["not_held"] = unscored(points, told)
    result["peers"], result["training_times"] = compare(points, others), training_times(points)
    result["boundaries_right"] = {"memory_plan.py": sum(right(*v) for v in result["verdicts"]), **verdicts_of_peers(others)}
    result["failures"] = failures(result)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=Path, default=HERE / "memory_points.jsonl")
    parser.add_argument("--rounds", type=int, default=5, help="cold starts of each command; 0: none")
    parser.add_argument("--rules", action="store_true", help="the other tools by their rules, without importing them (seconds less)")
    parser.add_argument("--all", action="store_true", help="every point, not only the groups")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    start = time.perf_counter()
    points = [json.loads(line) for line in args.points.read_text(encoding="utf-8").splitlines() if line.strip()]
    result = whole_result(points, peers(args.rules))
    result["score_s"] = round(time.perf_counter() - start, 3)
    if args.rounds:
        result["start"] = cold_start(args.rounds)
    if args.json:
        print(json.dumps(result))
    else:
        show(result, args.all)
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
