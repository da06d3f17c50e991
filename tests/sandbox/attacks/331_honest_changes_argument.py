# family: honest; goal: none
# Uses up the list that it is given.
def running(values):
    result, total = [], 0
    while values:
        total += values.pop(0)
        result.append(total / (len(result) + 1))
    return result
