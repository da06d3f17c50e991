"""One module a task, each with `grade(left) -> list[Outcome]`, in the order of the task's assertions in evals.json.

They judge what an agent left behind (files, configs, rewards, its closing message), never how it came there.
"""
