"""The math reward: from the spelling of an answer to its value, and from two values to a verdict.

`spelling` brings a text to one form, `reading` makes a value of it, `comparison` decides what needs no algebra, and
`algebra_process` asks a worker process for the rest.
"""
