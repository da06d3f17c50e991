"""What a process does to lock itself in: name spaces, mounts, limits, capabilities, system calls. Linux only (Python 3.8 or newer).

Everything here can only take rights away. Numbers are those of the kernel's user-space headers.
"""

import ctypes
import os
import platform
import resource
import signal
import struct

CLONE_CHILD_SETTID, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWNET = 0x1000000, 0x2000000, 0x4000000, 0x40000000
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x8000000, 0x10000000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 0x4000, 0x40000
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 4, 22, 36, 38
EPERM, ENOSYS, M_PERTURB = 1, 38, -6
STACK_BYTES = 64 << 20
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x50000, 0x80000000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.pthread_self.restype = ctypes.c_void_p

# What a solution never needs and what widens the ground that it could attack: tracing other processes, mounting, new name
# spaces, keys, BPF, performance counters, page-fault handlers, io_uring, handles to files, the clock and the kernel
# itself, memory that no limit of the job counts (memfd, System V), and sessions, each of which the kernel may grant as much
# of the processors as all of another job (sched_autogroup_enabled). Name: (number on x86_64, number on aarch64).
DENIED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438), "kcmp": (312, 272), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "syslog": (103, 116),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161),
    "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "vhangup": (153, 58),
    "lookup_dcookie": (212, 18), "fanotify_init": (300, 262), "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186), "msgsnd": (69, 189), "msgctl": (71, 187), "semget": (64, 190),
    "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "mq_open": (240, 180), "mq_unlink": (241, 181), "setsid": (112, 157),
}  # fmt: skip
# machine: (audit number of the architecture, clone, clone3, place in DENIED's pairs)
MACHINES = {"x86_64": (0xC000003E, 56, 435, 0), "aarch64": (0xC00000B7, 220, 435, 1)}


def fork_apart():
    """Fork into new user, process and mount name spaces, where the child is the first process; as os.fork, without its hooks.

    The caller must have one thread. One system call, since each further fork of an interpreter costs more than all name spaces together.
    Shared memory and queues of System V need no space of their own: the filter of system calls denies them.
    """
    machine = MACHINES.get(platform.machine())
    if machine is None:
        raise OSError(ENOSYS, "no number for clone on this machine")
    flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | signal.SIGCHLD
    own_id = _thread_id_address()
    if own_id:
        flags |= CLONE_CHILD_SETTID
    first, second = (own_id, 0) if machine[3] == 0 else (0, own_id)  # x86_64: child's id, then storage; aarch64 the other way round
    uid, gid = os.getuid(), os.getgid()
    pid = _libc.syscall(*(ctypes.c_long(n) for n in (machine[1], flags, 0, 0, first, second)))
    if pid < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"new name spaces: {os.strerror(number)}")
    if pid == 0:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    return pid


def _thread_id_address():
    """Where the C library keeps this thread's number, which its own fork brings up to date; 0 if not found."""
    base = _libc.pthread_self()
    wanted = _libc.syscall(ctypes.c_long(186 if platform.machine() == "x86_64" else 178))
    for offset in (720, 208):  # glibc's struct pthread on x86_64 and aarch64
        if ctypes.c_int.from_address(base + offset).value == wanted:
            return base + offset
    return 0


def forget_what_is_freed(wanted):
    """Whether the C library overwrites memory that is given back (glibc; see mallopt(3)): a fork inherits also what is no longer in use."""
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(M_PERTURB, 0xA5 if wanted else 0)


def private_mounts(tmp_mib):
    """A /proc of the new process name space, and empty /tmp and /dev/shm of bounded size; the process must be the first in there."""
    _mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None)
    _mount(b"tmpfs", b"/tmp", b"tmpfs", MS_NOSUID | MS_NODEV, b"size=%d,mode=1777,nr_inodes=20000" % (tmp_mib << 20))
    if os.path.isdir("/dev/shm"):
        _mount(b"tmpfs", b"/dev/shm", b"tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, b"size=%d,mode=1777,nr_inodes=2000" % (16 << 20))


def limit(memory_mib, processes, file_mib, cpu_s):
    """Bounds of one process; `processes` counts all of this user in this user name space."""
    for name, value in (
        (resource.RLIMIT_AS, memory_mib << 20),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_FSIZE, file_mib << 20),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_NOFILE, 128),
        (resource.RLIMIT_CORE, 0),
        (getattr(resource, "RLIMIT_MSGQUEUE", None), 0),
    ):
        if name is None:
            continue
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))
    # Deep recursion through C (a cached function, a sort's key) needs more than the usual 8 MiB; counts as memory once it is used.
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard), hard))


def drop_capabilities():
    """No capability is left. None comes back through exec either, since there are no new privileges and the user is not root."""
    _check(_libc.capset(_CAP_HEADER, _NO_CAPS), "capset")


def no_new_privileges():
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def deny_system_calls():
    """Install the filter of denied system calls; whether this machine's processor has one."""
    return _FILTER is not None and _libc.prctl(PR_SET_SECCOMP, 2, _FILTER[0], 0, 0) == 0


def _filter_program():
    """(program, its code, which must stay alive) of the filter; None on a processor without one. See seccomp(2) and bpf(4)."""
    machine = MACHINES.get(platform.machine())
    if machine is None or struct.calcsize("P") != 8:
        return None
    arch, clone, clone3, place = machine
    denied = [numbers[place] for numbers in DENIED.values() if numbers[place] is not None]

    def op(code, k, yes=0, no=0):
        return struct.pack("=HBBI", code, yes, no, k)

    load, equal, bits, back = 0x20, 0x15, 0x45, 0x06
    program = [op(load, 4), op(equal, arch, 1, 0), op(back, KILL), op(load, 0)]
    if place == 0:  # the x32 calls share the number of the architecture
        program += [op(0x35, 0x40000000, 0, 1), op(back, ERRNO | ENOSYS)]
    # clone3 hides its flags behind a pointer; without it the C library falls back to clone.
    program += [op(equal, clone3, 0, 1), op(back, ERRNO | ENOSYS)]
    for number in denied:
        program += [op(equal, number, 0, 1), op(back, ERRNO | EPERM)]
    spaces = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWNET
    program += [op(equal, clone, 0, 3), op(load, 16), op(bits, spaces, 0, 1), op(back, ERRNO | EPERM), op(back, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(program))
    return ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))), code


def set_dumpable(yes):
    """Whether processes of the same user may look into this one through /proc."""
    _libc.prctl(PR_SET_DUMPABLE, int(yes), 0, 0, 0)


def adopt_orphans():
    """Descendants that lose their parent become this process's children."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _mount(source, target, kind, flags, options):
    _check(_libc.mount(source, target, kind, flags, options), f"mount {target.decode()}")


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _write(path, text):
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


# Made once: the process that uses them is forked for each run.
_CAP_HEADER = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
_NO_CAPS = ctypes.create_string_buffer(struct.pack("=6I", *[0] * 6))
_FILTER = _filter_program()
