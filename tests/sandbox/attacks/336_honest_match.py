# family: honest; goal: none
# Structural pattern matching and the walrus.
def balanced(text):
    depth = 0
    for c in text:
        match c:
            case "(":
                depth += 1
            case ")":
                if (depth := depth - 1) < 0:
                    return False
            case _:
                pass
    return not depth
