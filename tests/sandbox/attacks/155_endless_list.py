# family: result; goal: harm
# A list that grows while it is read.
class Growing(list):
    def __iter__(self):
        while True:
            yield Growing()

    def __len__(self):
        return 1 << 62


def groups(values):
    return Growing([[]])
