"""The dry step beside the plan: each phase and each term, measured and planned."""

from __future__ import annotations

from typing import Any

from grpo_rlvr.cli import say
from grpo_rlvr.config import Config
from grpo_rlvr.errors import GrpoRlvrError
from grpo_rlvr.memory.estimate import CUBLAS, GIB
from grpo_rlvr.memory.plan import Plan, make_plan
from grpo_rlvr.memory.speed import speed
from grpo_rlvr.training.memory_here import workload_here

COUNTED = ("weights", "adapters", "reference", "gradients", "optimizer")


def gib(value: float) -> float:
    return round(value / GIB, 4)


def compared(config: Config, found: dict[str, Any]) -> dict[str, Any]:
    """Each phase and each term: measured and planned, in GiB; what is not counted one by one is the rest of the training step."""
    try:
        w = workload_here(config, prompt=found["prompt_tokens"], completion=found["completion_tokens"], autocast=found["autocast"])
    except GrpoRlvrError as exc:
        return {"plan": None, "plan_error": exc.problems[0].message}
    plan = make_plan(w)
    planned = {p.name: own_terms(plan, p.name) for p in plan.estimate.phases}
    phases = [
        {"phase": name, "measured_gib": peaks["peak"], "planned_gib": gib(sum(planned[name].values())), **_share(peaks["peak"], planned[name])}
        for name, peaks in found["measured"].items()
        if name in planned
    ]
    step, held_gib = planned["training step"], found["held"]
    terms = [{"term": t, "measured_gib": held_gib[t], "planned_gib": gib(step.get(t, 0) or planned["optimizer step"].get(t, 0))} for t in COUNTED]
    # Gradients are there in the training step's peak or come in it; either way they are among what is held at its end.
    before = sum(v for k, v in held_gib.items() if k != "gradients" or step.get("gradients"))
    rest = {k: v for k, v in step.items() if k not in COUNTED}
    planned_rest = gib(sum(rest.values()))
    top = found["measured"].get("training step", {}).get("peak")
    if top is not None:
        terms.append({"term": "everything else in the training step", "measured_gib": round(top - before, 3), "planned_gib": planned_rest})
    time = speed(w).step_s
    total = sum(found["seconds"].values()) / max(1, found["steps_run"] - 1)
    return {
        "phases": phases, "terms": [t for t in terms if t["measured_gib"] or t["planned_gib"]], "rest_of": sorted(rest),
        "step_s": round(total, 2), "planned_step_s": [round(time.low, 2), round(time.high, 2)],
        "plan": {"verdict": plan.verdict, "peak_gib": gib(plan.deciding.peak), "phase": plan.deciding.name, "usable_gib": w.gpu.plan_gib},
    }  # fmt: skip


def own_terms(plan: Plan, phase: str) -> dict[str, float]:
    """The terms that torch's counter (or a process's memory) holds: without context and fragmentation, with cuBLAS's workspaces on a GPU."""
    terms = {k: v for k, v in next(p for p in plan.estimate.phases if p.name == phase).terms.items() if k not in ("context", "fragmentation")}
    return terms if plan.workload.gpu.name == "cpu" else {**terms, "cublas": CUBLAS}


def _share(measured: float, terms: dict[str, float]) -> dict[str, float]:
    planned = sum(terms.values()) / GIB
    return {"planned_over_measured": round(planned / measured, 3)} if measured > 0 else {}


# ---- for people


def show(result: dict[str, Any]) -> None:
    """The comparison, at most 80 columns."""
    shape = f"{result['batch']} x ({result['prompt_tokens']} + {result['completion_tokens']}) tokens"
    say(f"one worst-case step on {result['device']}: {shape}, {result['completions_a_generation']} completions a generation")
    if result["device"] == "cpu":
        say("  on a CPU: resident memory of the process beyond Python and its libraries;")
        say("  no measure of a GPU: TRL's loss makes several copies of a tile here, which its")
        say("  GPU kernels do not; weights, gradients and states are counted exactly")
    say(f"  by {result['method']}"[:300])
    if result.get("plan") is None:
        say(f"  there is no plan to hold it against: {result['plan_error']}")
    else:
        _table("phase", result["phases"])
        _table("term", result["terms"])
        plan = result["plan"]
        say(f"plan: {plan['verdict']}, {plan['peak_gib']:.2f} of {plan['usable_gib']:.1f} GiB ({plan['phase']})")
        low, high = result["planned_step_s"]
        # The speed model is one of GPUs.
        say(f"step: {result['step_s']:.1f} s" + (f"; planned {low:.1f} to {high:.1f} s" if result["device"] != "cpu" else ""))


def _table(what: str, rows: list[dict[str, Any]]) -> None:
    say(f"{what:<38}{'measured':>10}{'planned':>10}{'ratio':>8}   GiB")
    for row in rows:
        measured, planned = row["measured_gib"], row["planned_gib"]
        ratio = f"{planned / measured:.2f}" if measured > 0 else "-"
        say(f"  {row[what]:<36}{measured:>10.3f}{planned:>10.3f}{ratio:>8}")
