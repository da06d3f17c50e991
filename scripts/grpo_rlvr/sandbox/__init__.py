"""Runs code that nobody has read: in a sandbox, never on the host.

    pool = open_pool("auto", Limits(timeout_s=5))
    pool.run([Calls(text, "f", [((1, 2), {})]), Program(text, ["3 4\\n"])])

Covered (each is tried when a sandbox is first opened, and measured in the tests): no network, no file of the host but the
interpreter's, no environment, no other processes to be seen or signalled; bounds on time, memory, processes, files and
output; every process of a job is gone when it ends or when this process dies, however it dies. What a completion reports is
only ever data: decisions are made outside, by processes that have not run its code.

Not covered: faults of the kernel that all share (for models that might look for those, run gVisor, a virtual machine or
another host, as the command in `sandbox`); side channels such as timing; solutions that hold the tests' answers by heart;
tests that accept wrong answers. With Docker, Podman or a command of your own, each completion pays a start of a container,
and the promises are those of the engine; what can be tried is tried.
"""

from grpo_rlvr.sandbox.limits import Limits
from grpo_rlvr.sandbox.opening import find_backend, open_pool
from grpo_rlvr.sandbox.pool import Pool
from grpo_rlvr.sandbox.process import SandboxFault
from grpo_rlvr.sandbox.tasks import Answer, Calls, Printed, Program, Raised, Returned, Tests

__all__ = ["Answer", "Calls", "Limits", "Pool", "Printed", "Program", "Raised", "Returned", "SandboxFault", "Tests", "find_backend", "open_pool"]
