# family: result; goal: marks
# Two keys that become one when they are written: the second could overwrite the first.
def tally(words):
    return {1: 1, "1": 2, True: 3, None: 4, "null": 5, 1.5: 6}
