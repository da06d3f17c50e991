# family: result; goal: marks
# 1 and 0 where True and False are meant.
def balanced(text):
    depth = 0
    for c in text:
        depth += {"(": 1, ")": -1}.get(c, 0)
        if depth < 0:
            return 0
    return int(depth == 0)
