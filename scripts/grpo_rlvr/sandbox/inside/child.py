"""One process of foreign code, beside the trusted one: started, timed, ended (Python 3.8 or newer)."""

import contextlib
import os
import select
import signal
import time

from sandbox_inside import jail

BEAT_S, FEW = 0.1, 4


class Fault(Exception):
    """The sandbox failed, not the candidate."""


class Child:
    """A candidate's process, in name spaces of its own where that can be; ended when the block is left.

    Args:
        run: called in the new process with a descriptor of /dev/null and the limits; must not return anything of worth.
        mine, its: descriptors of this process and of the child.
    """

    def __init__(self, run, job, settings, mine, its):
        self.settings, self.apart, self.reason, self.descriptors, self.status = settings, settings["isolate"], None, list(mine), None
        self.end = time.monotonic() + job["deadline_s"]
        said, tell = os.pipe()
        self.pid = jail.fork_apart() if self.apart else os.fork()
        if self.pid == 0:
            try:
                os.close(said)
                for fd in mine:
                    os.close(fd)
                if self.apart:
                    jail.private_mounts(settings["tmp_mib"])
                    jail.drop_capabilities()
                os.setsid()
                jail.deny_system_calls()
                jail.forget_what_is_freed(False)
                null = os.open("/dev/null", os.O_RDWR)
                os.write(tell, b"ready")
            except BaseException as exc:
                os.write(tell, (f"{type(exc).__name__}: {exc}").encode()[:500])
                os._exit(1)
            try:
                run(null, _limits(job, settings))
            finally:
                os._exit(0)
        os.close(tell)
        for fd in its:
            os.close(fd)
        word = os.read(said, 512)
        os.close(said)
        if word != b"ready":
            self.__exit__()
            raise Fault(word.decode("utf-8", "replace") or "the candidate's process did not start")
        self.clock = Clock(self.pid, job["timeout_s"])
        self.next_look = 0.0

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        if self.status is None:
            _kill(self.pid)
            os.waitpid(self.pid, 0)
        if not self.apart:
            _kill_all()
        for fd in self.descriptors:
            os.close(fd)

    def pause_ms(self):
        """How long the supervisor may sleep."""
        return BEAT_S * 1000

    def exit_status(self):
        """Exit status of the process, negative for a signal; None while it runs."""
        gone, raw = os.waitpid(self.pid, os.WNOHANG)
        if gone:
            self.status = os.WEXITSTATUS(raw) if os.WIFEXITED(raw) else -os.WTERMSIG(raw)
        return self.status

    def spent(self, running):
        """Whether it has used up its time or memory; `reason` says which."""
        now = time.monotonic()
        if (running and self.clock.over()) or now > self.end:
            self.reason = "time"
        elif now > self.next_look:
            self.next_look = now + BEAT_S
            _step_back()
            if self.apart and _resident_mib() > self.settings["total_mib"]:
                self.reason = "memory"
        return self.reason is not None

    def hand_over(self, fd, data):
        """Write to the child as far as it reads, within its time."""
        view = memoryview(data)
        poller = select.poll()
        poller.register(fd, select.POLLOUT)
        while view:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                poller.poll(self.pause_ms())
                if self.spent(True):
                    return False
            except OSError:
                return False
        return True


def _limits(job, settings):
    tests = 1 if job["kind"] == "program" else len(job.get("calls") or [None]) + 1
    names = ("memory_mib", "processes", "file_mib")
    return {**{name: settings[name] for name in names}, "cpu_s": int(job["timeout_s"] * tests) + 10}


def _step_back():
    """Many processes give way to those of other candidates, who would else be left a share too small to end in time."""
    processes = _processes()
    for name in processes if len(processes) > FEW else ():
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, int(name), 19)


def _resident_mib():
    """Memory that the job's processes have of their own or share among them."""
    kib = 0
    for name in _processes():
        try:
            with open(f"/proc/{name}/status", "rb") as file:
                for line in file:
                    if line.startswith((b"RssAnon:", b"RssShmem:")):
                        kib += int(line.split()[1])
        except (OSError, ValueError):
            continue
    return kib / 1024


# ---- time and the end
class Clock:
    """Whether a process has had its time: its own processor time, or time in which it was not waiting for a processor.

    Other work on the machine does not count against it, but for a bound at three times the limit.
    """

    def __init__(self, pid, limit_s):
        self.pid, self.limit_s = pid, limit_s
        self.restart()

    def restart(self):
        self.start, self.cpu_start, self.waited_start = time.monotonic(), self._cpu_s(), None

    def over(self):
        wall = time.monotonic() - self.start
        if self.waited_start is None and wall >= min(BEAT_S, self.limit_s) / 2:  # most are done before it is worth a look
            self.waited_start = _waited_s()
        if wall < self.limit_s:
            return self._cpu_s() - self.cpu_start >= self.limit_s
        # Of all threads: the first may only wait for others, as with a thread for deep recursion, or a pool of processes.
        waited = sum(now - self.waited_start.get(place, 0.0) for place, now in _waited_s().items())
        return wall - waited >= self.limit_s or self._cpu_s() - self.cpu_start >= self.limit_s or wall >= 3 * self.limit_s + 1

    def _cpu_s(self):
        try:
            return time.clock_gettime((~self.pid << 3) | 2)  # the kernel's number for the processor clock of a process
        except OSError:
            return getattr(self, "cpu_start", 0.0)


def _waited_s():
    """Time that each thread of the job has waited for a processor: (process, thread) -> seconds."""
    waited = {}
    for process in _processes():
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{process}/task"):
                with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{process}/task/{thread}/schedstat", encoding="ascii") as file:
                    waited[process, thread] = int(file.read().split()[1]) / 1e9
    return waited


def _processes():
    """The job's processes: all that can be seen but this one and the first."""
    return [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]


def _kill(pid):
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _kill_all():
    """End what a candidate left behind where it had no name space of its own, and wait for the ends."""
    while True:
        if os.getpid() == 1:
            with contextlib.suppress(OSError):
                os.kill(-1, signal.SIGKILL)
        else:
            for pid in _children():
                _kill(pid)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children():
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    found.append(int(name))
        except (OSError, ValueError, IndexError):
            continue
    return found
