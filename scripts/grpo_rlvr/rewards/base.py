"""What every reward shares: one call for strings and chats, columns checked, gold apart from the completion, pickling."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from typing import Any

from grpo_rlvr.completions import completion_text
from grpo_rlvr.errors import GoldError, Problem, UserError

log = logging.getLogger("grpo_rlvr.rewards")


class Reward:
    """A callable `reward(completions, **columns) -> list[float | None]` that TRL can use as it is.

    A subclass says which gold columns it reads, how a gold is read (`read_gold`) and what one completion scores
    (`score_one`). Gold is read once per distinct value of a call, outside the guard around the completion: a broken gold
    is `None` for its rows (or a `GoldError`, where `gold_error_raises`), and what a model wrote can only ever be a score.

    Attributes:
        __name__: TRL's metric key; unique within a run.
        columns: gold columns this reward needs.
        correctness: whether 1.0 means that the answer is right (such a reward is `required` by default).
        one_for_all: whether one text or object may stand in the place of a column, for all completions.
        unscored: how many `None` this object has returned.
    """

    columns: tuple[str, ...] = ()
    correctness: bool = False
    gold_error_raises: bool = False
    one_for_all: bool = False

    def __init__(self, name: str):
        self.__name__ = name
        self.unscored = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__}>"

    # ---- for subclasses
    def read_gold(self, *values: Any) -> Any:
        """The gold in the form `score_one` wants, from one value a column. Raises GoldError or ValueError with the reason."""
        return None

    def read_completion(self, completion: Any) -> Any:
        """What `score_one` gets of a completion: its text. A subclass that needs more than the text replaces this."""
        return completion_text(completion)

    def score_one(self, text: Any, gold: Any) -> float | None:
        """The score of one completion's text."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Make ready what scoring needs, before anything slow. Raises MissingError for what this machine lacks."""

    def honest_forms(self, gold: Any) -> list[str]:
        """Ways to write a right final answer for a gold that was read, each as it would stand after the reasoning.

        `dataset_check` has the reward score them. Empty where no right answer can be written down from the gold.
        """
        return []

    def clearly_different(self, gold: Any, other: Any) -> bool:
        """Whether an answer that is right for `other` is certainly wrong for `gold`; False also where it is not known."""
        return False

    def score_texts(self, texts: list[Any], golds: list[Any]) -> list[float | None]:
        """The scores of texts whose golds were read; a subclass with work to batch replaces this."""
        return [self._guarded(text, gold) for text, gold in zip(texts, golds, strict=True)]

    # ---- for callers
    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        rows = self._gold_rows(len(completions), columns)
        golds: list[Any] = []
        readable: list[int] = []
        seen: dict[Any, tuple[Any, str | None]] = {}
        for index, values in enumerate(rows):
            key = gold_key(values)
            read = seen.get(key)
            if read is None:
                read = seen[key] = self._read(values)
            gold, problem = read
            if problem is None:
                golds.append(gold)
                readable.append(index)
            elif self.gold_error_raises:
                raise GoldError(Problem(f"row {index}", problem, f"mend or drop the row's {', '.join(self.columns)}"))
        texts = [self.read_completion(completions[i]) for i in readable]
        values = self.score_texts(texts, golds)
        if len(readable) == len(rows):
            scores = list(values)
        else:
            scores = [None] * len(rows)
            for index, value in zip(readable, values, strict=True):
                scores[index] = value
        self.unscored += scores.count(None)
        return scores

    def gold_problem(self, row: dict) -> str | None:
        """Why this row's gold cannot be read, or None if it can."""
        missing = [c for c in self.columns if c not in row]
        if missing:
            return f"column {missing[0]!r} is missing"
        return self._read(tuple(row[c] for c in self.columns))[1]

    # ---- inside
    def _read(self, values: tuple) -> tuple[Any, str | None]:
        try:
            return self.read_gold(*values), None
        except GoldError as exc:
            return None, "; ".join(p.message for p in exc.problems)
        except (ValueError, TypeError, RecursionError, OverflowError) as exc:
            return None, str(exc) or type(exc).__name__

    def _gold_rows(self, count: int, columns: dict[str, Any]) -> list[tuple]:
        lists = []
        for name in self.columns:
            if name not in columns:
                raise self._misuse(f"the gold column {name!r} did not reach the reward", "add it to the data, or map it in data.columns")
            values = columns[name]
            if self.one_for_all and isinstance(values, (str, dict)):
                values = [values] * count
            if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__len__"):
                raise self._misuse(f"column {name!r} is a {type(values).__name__}, not a list with one value a completion")
            if len(values) != count:
                raise self._misuse(f"column {name!r} has {len(values)} values for {count} completions; rows and completions must be as many")
            lists.append(list(values))
        return list(zip(*lists, strict=True)) if lists else [()] * count

    def _misuse(self, message: str, fix: str = "") -> UserError:
        return UserError("reward", Problem(self.__name__, message, fix))

    def _guarded(self, text: Any, gold: Any) -> float | None:
        try:
            return self.score_one(text, gold)
        except Exception as exc:  # whatever a model writes is a score
            log.warning("%s: a completion made the reward fail (%s); it scores 0", self.__name__, type(exc).__name__)
            return 0.0


def gold_key(values: tuple) -> Any:
    """A key that is the same for equal golds of the same types (1, 1.0, True and "1" all differ)."""
    if all(type(value) is str for value in values):
        return values
    try:
        return json.dumps(values)
    except (TypeError, ValueError, RecursionError):
        return f"{type(values).__name__} {values!r}"


def scalar_gold(value: Any) -> str:
    """The gold of an `answer` column as text. Raises ValueError for missing, blank and non-scalar golds."""
    if value is None:
        raise ValueError("the gold is missing (null)")
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"the gold is a {type(value).__name__}, not text or a number")
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        raise ValueError(f"the gold is {value}")
    text = value if isinstance(value, str) else repr(value)
    if not text.strip():
        raise ValueError("the gold is empty")
    return text


class Memo:
    """A bounded map from keys to results that threads may share; the oldest half goes when it is full."""

    def __init__(self, size: int = 8192):
        self._size, self._items, self._lock = size, {}, threading.Lock()

    def get(self, key: Any) -> Any:
        """The stored value, or None."""
        return self._items.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Store a value that is not None."""
        with self._lock:
            if len(self._items) >= self._size:
                for old in list(self._items)[: self._size // 2]:
                    del self._items[old]
            self._items[key] = value
