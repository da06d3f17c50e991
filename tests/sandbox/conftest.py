"""Pools of sandboxes for the tests."""

from __future__ import annotations

import pytest
from grpo_rlvr.sandbox import Limits
from grpo_rlvr.sandbox.backends import Bubblewrap
from grpo_rlvr.sandbox.pool import Pool


@pytest.fixture
def backend(sandbox_here):
    assert sandbox_here.server, "the fast way works wherever bubblewrap does; what is different here?"
    return sandbox_here


@pytest.fixture(params=["server", "fresh"])
def any_backend(request, backend):
    """The two ways: one server for all jobs, and a sandbox of its own for each."""
    return backend if request.param == "server" else Bubblewrap(server=False)


@pytest.fixture
def open_one(backend):
    """open_one(**limits) -> a pool of one worker, closed after the test."""
    pools = []

    def make(backend=backend, workers=1, **limits) -> Pool:
        pools.append(Pool(backend, Limits(**limits), workers))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()
