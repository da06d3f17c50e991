"""The cheapest set of levers with which a run fits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.memory.estimate import GIB
from grpo_rlvr.memory.levers import Lever, options, prompt_lever, vllm_lever
from grpo_rlvr.memory.patches import merge
from grpo_rlvr.memory.plan import Plan, make_plan, trainer_fits, tuned
from grpo_rlvr.memory.workload import Workload


@dataclass(frozen=True)
class Fit:
    """The cheapest set of changes found. `steps` are (lever, peak in GiB with it and those before, what it saves there)."""

    plan: Plan
    steps: tuple[tuple[Lever, float, float], ...]
    patch: dict[str, dict[str, Any]]


def cheapest_fit(w: Workload) -> Fit | None:
    """The set of levers of least cost with which the run FITS, vLLM's share and context set to match; None if there is none."""
    choices = options(w)
    if not any(_fits(w, _taken(chosen)) for chosen in _strongest(choices)):
        return None
    alone: dict[tuple[int, ...], bool] = {}
    for chosen in sorted(itertools.product(*[[None, *found] for found in choices]), key=_cost):
        levers = _taken(chosen)
        if _conflict(w, levers) or _too_large_alone(w, levers, alone):
            continue
        plan = _settled(w, levers)
        if plan is not None and plan.fits:
            return _explained(w, levers, plan)
    return None


def _too_large_alone(w: Workload, levers: list[Lever], seen: dict[tuple[int, ...], bool]) -> bool:
    """Whether the trainer does not fit even with nothing of vLLM beside it, whatever is done to vLLM; `seen` remembers it by the other levers."""
    trainers = [lever for lever in levers if lever.name not in ("sleep", "tensor-parallel", "generation")]
    key = tuple(id(lever) for lever in trainers)
    if key not in seen:
        for lever in trainers:
            w = lever.apply(w)
        seen[key] = not trainer_fits(w)
    return seen[key]


def _strongest(choices: list[list[Lever]]) -> Iterator[tuple[Lever | None, ...]]:
    """The sets that save most, one for each way of holding the weights (the trainer's and vLLM's) and of generating: if none fits, nothing does."""
    kinds = [found for found in choices if found[0].name in ("dtype", "lora", "qlora", "sharding", "tensor-parallel", "generation")]
    others = [found[-1] for found in choices if found not in kinds]
    for chosen in itertools.product(*[[None, *found] for found in kinds]):
        names = {lever.name for lever in chosen if lever}
        kept = [lever for lever in others if not (names & {"lora", "qlora"} and lever.name in ("optimizer", "reference"))]
        yield (*chosen, *kept)


def _taken(chosen: tuple[Lever | None, ...]) -> list[Lever]:
    return [lever for lever in chosen if lever is not None]


def _fits(w: Workload, levers: list[Lever]) -> Plan | None:
    plan = None if _conflict(w, levers) else _settled(w, levers)
    return plan if plan is not None and plan.fits else None


def _cost(levers: tuple[Lever | None, ...]) -> float:
    return sum(lever.cost for lever in levers if lever is not None)


def _conflict(w: Workload, levers: list[Lever]) -> bool:
    for lever in levers:
        if lever.on(w) is None:
            return True
        w = lever.apply(w)
    names = {lever.name for lever in levers}
    adapters = names & {"lora", "qlora"}
    return bool(adapters and names & {"dtype", "optimizer", "reference"}) or ("qlora" in names and "sharding" in names)


def _settled(w: Workload, levers: list[Lever]) -> Plan | None:
    for lever in levers:
        w = lever.apply(w)
    own = make_plan(w)
    if own.fits:
        return own
    ready = tuned(w)
    return make_plan(ready) if ready is not None else None


def _explained(w: Workload, levers: list[Lever], plan: Plan) -> Fit:
    steps, before, now = [], make_plan(w), w
    patch: dict[str, dict[str, Any]] = {}
    peak = before.deciding.peak / GIB
    final = plan.workload
    for lever in levers:
        here = lever.on(now)
        now = lever.apply(now)
        after = make_plan(now).deciding.peak / GIB
        steps += [(here, after, peak - after), *((one, after, 0.0) for one in here.follows)]
        peak = after
        for one in (here, *here.follows):
            merge(patch, one.patch)
    if final != now:
        lever = vllm_lever(now, final)
        after = plan.deciding.peak / GIB
        steps.append((lever, after, peak - after))
        merge(patch, lever.patch)
    stated = prompt_lever(w, patch)
    if stated is not None:
        steps.append((stated, plan.deciding.peak / GIB, 0.0))
        merge(patch, stated.patch)
    return Fit(plan, tuple(steps), patch)
