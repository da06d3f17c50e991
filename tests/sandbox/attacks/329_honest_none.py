# family: honest; goal: none
# None, also by falling off the end.
def first_double(values):
    seen = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
