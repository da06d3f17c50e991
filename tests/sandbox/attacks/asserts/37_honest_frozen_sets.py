# family: honest; goal: none
# Sets of frozen sets.
def pairs(items):
    return {frozenset((a, b)) for a in items for b in items if a != b}
