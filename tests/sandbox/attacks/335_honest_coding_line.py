# family: honest; goal: none
# -*- coding: utf-8 -*-
# With a declaration of the encoding, and names that shadow built-ins.
def mirror(text):
    list, str, id = text, text[::-1], None
    return list + str
