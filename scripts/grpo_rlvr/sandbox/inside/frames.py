"""Messages on a pipe: four bytes of length, then JSON. Runs on both sides of the sandbox (Python 3.8 or newer)."""

import json
import os

MOST_BYTES = 32 * 1024 * 1024


def pack(message):
    """The bytes of one message."""
    return pack_bytes(json.dumps(message, separators=(",", ":")).encode())


def pack_bytes(body):
    return len(body).to_bytes(4, "big") + body


def send(fd, message):
    """Write one message whole."""
    send_bytes(fd, pack(message))


def send_bytes(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def receive(fd, most=MOST_BYTES):
    """One message, or None at the end of the pipe; ValueError for what is no message, or a longer one."""
    body = receive_bytes(fd, most)
    return None if body is None else json.loads(body.decode())


def receive_bytes(fd, most=MOST_BYTES):
    """The body of one message as it came."""
    head = _exactly(fd, 4)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > most:
        raise ValueError(f"a message of {size} bytes")
    return _exactly(fd, size)


def _exactly(fd, count):
    parts, left = [], count
    while left:
        part = os.read(fd, min(left, 1 << 20))
        if not part:
            return None
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


class Splitter:
    """Cuts what arrives in pieces into messages, as raw bytes with their length in front; ValueError for one that is too long."""

    def __init__(self, most):
        self.most, self.rest = most, b""

    def feed(self, data):
        self.rest += data
        found = []
        while len(self.rest) >= 4:
            size = int.from_bytes(self.rest[:4], "big")
            if size > self.most:
                raise ValueError(f"a message of {size} bytes")
            if len(self.rest) < 4 + size:
                break
            found.append(self.rest[: 4 + size])
            self.rest = self.rest[4 + size :]
        return found
