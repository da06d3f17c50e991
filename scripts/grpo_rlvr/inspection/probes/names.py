"""The probes by name, and what each asks. The enum of `inspection.accept` in config.schema.json lists the same names (a test compares them)."""

from __future__ import annotations

PROBES: dict[str, str] = {
    # the answer made wrong
    "mutated_answer": "is a completion still paid when only its answer was made wrong?",
    "reward_raises": "does the reward raise on something that a model may write?",
    "return_value": "does it return one finite number, or None, a completion, whatever was written?",
    # the contract
    "value_range": "are the values within [0, 1], or [-1, 0] for shaping?",
    "totals": "does the sum of all rewards pay a failing completion more than a passing one?",
    "determinism": "does the very same call give the same scores?",
    "batch_independence": "does a completion score the same in another order and in other batches?",
    "none_share": "how often can the reward not score?",
    "completion_format": "does the same text score the same as text and as a chat?",
    "message_forms": "does the reward bear messages without content, content parts and tool turns?",
    "odd_input": "does it bear very long, deeply nested and broken text, in bounded time?",
    "threads": "does it score the same from several threads at once?",
    "pickling": "can it be sent to another process?",
    "names": "has each reward a name of its own?",
    "speed": "how long does a completion take?",
    # honest completions
    "honest_rewriting": "does an accepted completion keep its score when only its looks change?",
    # attacks
    "no_answer": "is a completion without an answer paid?",
    "prompt_echo": "is the prompt paid as an answer?",
    "expression_echo": "is the expression that the prompt asks to work out paid as the answer?",
    "gold_anywhere": "is the right answer paid wherever it stands, beside a wrong final answer?",
    "reasoning_only": "is the right answer paid where it stands in the reasoning alone?",
    "answers_listed": "is a list of candidates paid?",
    "several_answers": "are several different answers paid?",
    "truncated": "is half an answer paid?",
    "after_eos": "does text after the end of the turn count?",
    "length_pays": "does being longer, or shorter, make up for being wrong?",
    "repetition": "is the same thing paid again and again?",
    "lookalikes": "are characters paid that only look like the answer, or are folded into it?",
    "broken_answer": "is an answer paid that breaks the parser?",
    "runs_completion": "does the reward run the model's text in this process?",
    "minimal_json": "is JSON without content paid?",
    "typed_values": "is a value of another type paid?",
    "repeated_items": "are doubled or reordered items paid?",
    "forged_verdict": "does a verdict in the completion sway the judge?",
    "code_cheats": "is a program paid that ends the test instead of passing it?",
    # controls over the batch
    "shuffled_golds": "does the reward pay completions against the golds of other rows?",
    "unread_gold": "is there a column that looks like the gold, and that no required reward reads?",
    "other_prompts": "does it pay the completions of other prompts?",
    "constant_completion": "does one completion earn everywhere what honest ones earn?",
    "length_only": "does the score follow the length, among completions that are equally right?",
}
