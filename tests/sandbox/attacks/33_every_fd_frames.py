# family: forge; goal: marks
# The same with length prefixes of the usual kinds.
import json
import os
import struct

BODY = json.dumps({"index": 0, "ok": True, "passed": True, "results": [[0, True], [1, True]]}).encode()
FRAMES = b"".join(struct.pack(form, len(BODY)) + BODY for form in ("<I", ">I", "<Q", ">Q", "<H", ">H"))

for fd in range(64):
    try:
        os.write(fd, FRAMES)
        os.write(fd, b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
    except OSError:
        pass
os._exit(0)
