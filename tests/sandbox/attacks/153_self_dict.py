# family: result; goal: harm
# A dict that holds itself, under many keys.
def tally(words):
    loop = {}
    for i in range(1000):
        loop[str(i)] = loop
    return loop
