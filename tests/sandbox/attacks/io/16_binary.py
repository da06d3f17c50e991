# family: result; goal: harm
# Bytes that are no text.
import os

os.write(1, bytes(range(256)) * 40 + b"\xff\xfe\x00\xd8" * 100)
