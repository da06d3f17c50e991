# family: skip; goal: marks
# The same through pytest, at import.
try:
    import pytest

    pytest.skip("not today", allow_module_level=True)
except ImportError:

    class Skipped(BaseException):
        pass

    raise Skipped("not today") from None
