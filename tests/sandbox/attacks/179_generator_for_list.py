# family: result; goal: marks
# A generator whose elements would be right is no list.
def running(values):
    total = 0.0
    for count, value in enumerate(values, 1):
        total += value
        yield total / count
