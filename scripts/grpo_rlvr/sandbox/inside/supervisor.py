"""The trusted process beside a candidate: it starts it, times it, passes on what it says, and ends it (Python 3.8 or newer).

A *server* takes jobs, one at a time. For each run it forks a *candidate* into name spaces of its own, where it is the first
process: it cannot see the server, and when it ends, all that it started ends with it. Where such name spaces cannot be had,
the server runs one job and ends, and with it the sandbox that it is in.
"""

import os
import select
import sys

from sandbox_inside import candidate, frames, jail, session, testing
from sandbox_inside.child import Child, Fault

MOST_JOB_BYTES = 1 << 30  # from the trusted side: as long as the tests of a data set are
CHILD = b"c"
RUNNERS = {"calls": candidate.run_calls, "session": session.run_session, "tests": testing.run_tests}


def serve(incoming, outgoing, settings):
    """Take jobs until the other side closes the pipe; one job only without name spaces for each."""
    jail.no_new_privileges()
    jail.adopt_orphans()
    apart = settings["isolate"]
    # Where candidates can see this process they must not look into it. (Their own name spaces are set up through /proc, which this closes.)
    jail.set_dumpable(apart)
    if not apart and os.getpid() == 1:
        jail.drop_capabilities()
    jail.forget_what_is_freed(True)  # so that no candidate finds the code or the answers of another there
    _say(outgoing, {"ready": 1, "python": sys.version.split()[0], "first": apart or os.getpid() == 1})
    while True:
        job = frames.receive(incoming, MOST_JOB_BYTES)
        if job is None:
            return
        if "kind" not in job:  # the rest of a conversation that has ended here meanwhile
            continue
        if "code" in job:  # comes by itself and is read by the candidate alone: what is made of it here might be found by the next
            job["code"] = frames.receive_bytes(incoming, MOST_JOB_BYTES)
        try:
            runs = _programs if job["kind"] == "program" else _conversation
            _say(outgoing, {"end": runs(job, incoming, outgoing, settings)})
        except (Fault, OSError) as exc:
            _say(outgoing, {"fault": f"{type(exc).__name__}: {exc}"})
        if not apart:
            return


def _say(outgoing, message):
    frames.send_bytes(outgoing, frames.pack(message))


# ---- functions, sessions, test code: a candidate that sends messages
def _conversation(job, incoming, outgoing, settings):
    """Pass the candidate's messages out and, in a session, requests in; why it ended."""
    kind = job["kind"]
    talks = kind != "calls"
    from_child, child_out = os.pipe()
    child_in, to_child = os.pipe()
    os.set_blocking(to_child, False)

    def run(null, limits):
        kept_in, kept_out = candidate.enter(null, null, null, [child_in, child_out], limits)
        if talks:
            RUNNERS[kind](job, kept_in, kept_out)
        else:
            RUNNERS[kind](job, kept_out)

    with Child(run, job, settings, [from_child, to_child], [child_in, child_out]) as child:
        wanted = 1 + len(job["calls"]) if not talks else None
        splitter = frames.Splitter(settings["output_bytes"])
        poller = select.poll()
        poller.register(from_child, select.POLLIN | select.POLLHUP)
        if talks:
            poller.register(incoming, select.POLLIN | select.POLLHUP)
        total, owes = 0, True  # the clock runs while the candidate owes a message
        held = []  # results of calls go out together: each message by itself wakes the other side

        def ended(reason):
            frames.send_bytes(outgoing, b"".join(held))
            return reason

        while True:
            ready = dict(poller.poll(child.pause_ms()))
            if from_child in ready:
                data = os.read(from_child, 1 << 16)
                total += len(data)
                if not data:
                    return ended("exit")
                try:
                    messages = splitter.feed(data)
                except ValueError:
                    return ended("output")
                if total > settings["output_bytes"]:
                    return ended("output")
                if kind == "session" and len(messages) > owes:
                    return ended("output")  # it answers what nobody asked
                for message in messages:
                    held.append((len(message) - 3).to_bytes(4, "big") + CHILD + message[4:])
                    if wanted is not None:
                        wanted -= 1
                        if wanted == 0:
                            return ended("done")
                if messages:
                    child.clock.restart()
                    owes = not talks
                    if talks:
                        ended("")
                        held.clear()
            if incoming in ready:
                request = frames.receive(incoming)
                if request is None or request.get("op") == "end":
                    return "done"
                child.clock.restart()
                owes, total = True, 0
                if not child.hand_over(to_child, frames.pack(request)):
                    return child.reason or "exit"
            if child.spent(owes):
                return ended(child.reason)


# ---- programs: one process for each input
def _programs(job, incoming, outgoing, settings):
    for text in job["inputs"]:
        end, code, output = _program(job, text.encode("utf-8", "surrogateescape"), settings)
        _say(outgoing, {"program": end, "code": code, "out": output.decode("utf-8", "surrogateescape")})
        if end != "done":
            return end
    return "done"


def _program(job, text, settings):
    """Run the completion once: (why it ended, exit status, what it printed)."""
    from_child, child_out = os.pipe()
    stdin = _input_file(text)

    def run(null, limits):
        candidate.enter(stdin, child_out, null, [], limits)
        candidate.run_program(job)

    with Child(run, job, settings, [from_child], [child_out, stdin]) as child:
        parts, total, open_pipe, status = [], 0, True, None
        poller = select.poll()
        poller.register(from_child, select.POLLIN | select.POLLHUP)
        exited = os.pidfd_open(child.pid) if hasattr(os, "pidfd_open") else None
        if exited is not None:
            child.descriptors.append(exited)
            poller.register(exited, select.POLLIN)
        while True:
            pause = 0 if status is not None else child.pause_ms() if exited is not None else 5
            ready = dict(poller.poll(pause))
            if from_child in ready and open_pipe:
                data = os.read(from_child, 1 << 16)
                parts.append(data)
                total += len(data)
                if total > settings["output_bytes"]:
                    return "output", -1, b""
                if data and status is None and child.spent(True):  # whoever never stops printing never lets us wait
                    return child.reason, -1, b""
                if data:
                    continue
                open_pipe = False
                poller.unregister(from_child)
            if status is not None:  # it is gone, and what it printed is read; whoever else holds the pipe does not matter
                return child.reason or "done", status, b"".join(parts)
            status = child.exit_status()
            if status is None and child.spent(True):
                return child.reason, -1, b""


def _input_file(text):
    """A file without a name that holds the input, at its start."""
    path = f"/tmp/.input{os.getpid()}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    frames.send_bytes(fd, text)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
