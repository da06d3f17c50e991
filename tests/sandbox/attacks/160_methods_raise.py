# family: result; goal: harm
# Raises something that is no Exception in each method that describes it.
class Rude(dict):
    def refuse(self, *_):
        raise SystemExit(0)

    __repr__ = __str__ = __len__ = __iter__ = __eq__ = __bool__ = __getitem__ = keys = items = values = get = refuse
    __reduce__ = __reduce_ex__ = __sizeof__ = refuse
    __hash__ = None


def tally(words):
    return Rude(a=1)
