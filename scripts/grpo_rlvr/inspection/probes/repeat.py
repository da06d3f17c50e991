"""The same completions scored again: in the very same call, in other batches, from several threads, by a copy from another process."""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.probes.findings import finding, pair_example, said, scored
from grpo_rlvr.inspection.probes.subject import Subject, spread
from grpo_rlvr.inspection.scores import score_samples

ACCEPTED, REJECTED, SLICE, THREADS = 48, 16, 7, 4  # completions scored again, how many at once, from how many threads
NOISE_SHARE = 0.05  # of the completions; more of them changed is an error
NOISE = 0.02  # a change of the total that is smaller is noise, whatever its share
SLOW_S = 1.0  # a completion
PROBE_S = 60.0  # a whole batch is scored again only if it takes no longer


def repeatability(subject: Subject) -> list[dict]:
    """The findings `determinism`, `batch_independence`, `threads` and `speed`; sets the subject's `seconds` and `noisy`."""
    part = [*spread(subject.accepted, ACCEPTED), *spread(subject.rejected, REJECTED)][::-1]
    if not part:
        part = spread(range(len(subject.samples)), REJECTED)
    try:
        start = time.perf_counter()
        first, seconds = score_samples(subject.rewards, [subject.samples[i] for i in part], subject.threshold)
        subject.seconds = (time.perf_counter() - start) / len(part)
        second = _again(subject, part)
        speed = _speed(seconds, len(part))
        noise = _changed(part, first, second)
        if noise:
            return [_noisy(subject, part, first, second, noise), speed]
        moved = _changed(part, [subject.scores[i] for i in part], first)
        if moved and (remembers := _remembers(subject)):
            return [remembers, speed]
        steady = finding("determinism", "ok", f"{len(part)} completions scored twice in the same call gave the same scores")
        batches = _batches(subject, part, first, moved)
        return [steady, batches, *([] if batches["severity"] == "error" else [_threads(subject, part)]), speed]
    except UserError as exc:
        if exc.kind != "reward":
            raise
        return [finding("batch_independence", "error", f"in a batch of {len(part)}: {said(exc)}")]


def pickling(subject: Subject) -> dict:
    """Whether each reward can be sent to another process, as data loaders and launchers with several processes may ask."""
    for reward in subject.rewards:
        try:
            pickle.loads(pickle.dumps(reward.function))  # noqa: S301  (what was pickled a moment ago)
        except Exception as exc:  # pickle raises whatever the object raises
            message = f"{reward.name} cannot be pickled ({type(exc).__name__}: {str(exc)[:120]}): define it at the top of its module"
            return finding("pickling", "warning", message)
    return finding("pickling", "ok", "each reward can be sent to another process")


def _again(subject: Subject, part: Sequence[int]) -> list[dict]:
    return score_samples(subject.rewards, [subject.samples[i] for i in part], subject.threshold)[0]


def _changed(part: Sequence[int], old: Sequence[dict], new: Sequence[dict]) -> list[int]:
    """Places in `part` whose scores are not the same."""
    return [k for k in range(len(part)) if any(not _equal(v, new[k]["scores"][name]) for name, v in old[k]["scores"].items())]


def _noisy(subject: Subject, part: Sequence[int], first: Sequence[dict], second: Sequence[dict], noise: Sequence[int]) -> dict:
    """The very same call gave other scores: random, or something is remembered from call to call."""
    subject.noisy = True
    third = _again(subject, part)
    settled = not _changed(part, second, third)
    flips = sum(first[k]["verdict"] != second[k]["verdict"] for k in noise)
    largest = max(noise, key=lambda k: _gap(first[k], second[k]))
    gap = _gap(first[largest], second[largest])
    names = sorted({name for k in noise for name, v in first[k]["scores"].items() if not _equal(v, second[k]["scores"][name])})
    what = "it remembers earlier calls" if settled else "it is random"
    many = settled or flips > NOISE_SHARE * len(part) or (gap > NOISE and len(noise) > NOISE_SHARE * len(part))
    message = (
        f"{', '.join(names)} gives {len(noise)} of {len(part)} completions another score in the very same call "
        f"(verdict changed: {flips}, largest change of the total: {gap:.3g}): {what}"
    )
    if not many:
        message += "; every score carries this noise"
    pair = {"first": scored(subject.samples[part[largest]], first[largest]), "again": scored(subject.samples[part[largest]], second[largest])}
    example = pair_example(subject.samples[part[largest]], pair)
    return finding("determinism", "error" if many else "warning", message, example, len(part), len(noise))


def _remembers(subject: Subject) -> dict | None:
    """Whether all samples scored again, as they were, get other scores than the first time; None if not, or if it takes too long."""
    if subject.seconds * len(subject.samples) > PROBE_S:
        return None
    every = range(len(subject.samples))
    again = _again(subject, every)
    changed = _changed(every, subject.scores, again)
    if not changed:
        return None
    k = changed[0]
    pair = {"first": scored(subject.samples[k], subject.scores[k]), "again": scored(subject.samples[k], again[k])}
    names = sorted({name for k in changed for name, v in subject.scores[k]["scores"].items() if not _equal(v, again[k]["scores"][name])})
    message = (
        f"{', '.join(names)} gives {len(changed)} of {len(subject.samples)} completions another score when all are scored a second time: "
        "it remembers earlier calls"
    )
    return finding("determinism", "error", message, pair_example(subject.samples[k], pair), len(subject.samples), len(changed))


def _batches(subject: Subject, part: Sequence[int], first: Sequence[dict], moved: Sequence[int]) -> dict:
    """Whether completions keep their scores in another order and other batches, as training will send them."""
    if moved:
        return _neighbours(subject, part[moved[0]], first[moved[0]])
    for at in range(0, len(part), SLICE):
        slice_ = part[at : at + SLICE][::-1]
        try:
            again = _again(subject, slice_)
        except UserError as exc:
            return finding("batch_independence", "error", f"in a batch of {len(slice_)}: {said(exc)}")
        for i, row in zip(slice_, again, strict=True):
            if _changed([i], [subject.scores[i]], [row]):
                return _neighbours(subject, i, row)
    return finding("batch_independence", "ok", f"{len(part)} completions score the same in another order and other batches")


def _neighbours(subject: Subject, i: int, row: dict) -> dict:
    changed = [name for name, old in subject.scores[i]["scores"].items() if not _equal(old, row["scores"][name])]
    message = f"{', '.join(changed)} scores the same completion otherwise in another batch: it looks at its neighbours"
    pair = {"first": scored(subject.samples[i], subject.scores[i]), "again": scored(subject.samples[i], row)}
    return finding("batch_independence", "error", message, pair_example(subject.samples[i], pair))


def _threads(subject: Subject, part: Sequence[int]) -> dict:
    """Whether calls from several threads at once give the scores that one call gives."""
    slices = [part[k::THREADS] for k in range(THREADS)]
    slices = [s for s in slices if s] * 2
    with ThreadPoolExecutor(len(slices)) as pool:
        try:
            found = list(pool.map(lambda s: _again(subject, s), slices))
        except UserError as exc:
            return finding("threads", "error", f"called from {len(slices)} threads at once: {said(exc)}")
    for slice_, rows in zip(slices, found, strict=True):
        for i, row in zip(slice_, rows, strict=True):
            if _changed([i], [subject.scores[i]], [row]):
                pair = {"alone": scored(subject.samples[i], subject.scores[i]), "among threads": scored(subject.samples[i], row)}
                message = "the same completion is scored otherwise when several threads call at once: calls share something that they change"
                return finding("threads", "error", message, pair_example(subject.samples[i], pair))
    return finding("threads", "ok", f"{len(slices)} threads at once get the scores that one call gets")


def _speed(seconds: dict[str, float], count: int) -> dict:
    each = {name: s / count for name, s in seconds.items()}
    words = ", ".join(f"{name} {s * 1000:.3g} ms" for name, s in each.items())
    slow = [name for name, s in each.items() if s > SLOW_S]
    if slow:
        message = f"a completion takes {words}: every training step waits for it; score in parallel, or remember what was scored"
        return finding("speed", "warning", message, seconds=each)
    return finding("speed", "ok", f"a completion takes {words}", seconds=each)


def _equal(old: float | None, new: float | None) -> bool:
    return old is new or (old is not None and new is not None and abs(old - new) <= 1e-6 * max(1.0, abs(old)))


def _gap(a: dict, b: dict) -> float:
    return abs((a["total"] or 0.0) - (b["total"] or 0.0))
