# family: forge; goal: harm
# A decimal number of eight million digits.
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


send(b'{"v":null}', b'{"v":{"D":"' + b"9" * 8_000_000 + b'"}}')
