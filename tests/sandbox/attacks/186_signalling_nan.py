# family: values; goal: harm
# A number that raises when it is compared.
from decimal import Decimal


def balanced(text):
    return Decimal("sNaN")
