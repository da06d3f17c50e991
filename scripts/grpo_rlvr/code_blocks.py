"""Which code a completion hands in: fenced blocks of Markdown, and the one among them that solves the task.

Linear in the text. Also sent into the sandbox (Python 3.8 or newer, nothing imported but the standard library): whether
a block parses is only ever asked there, since a parser can be crashed by what it parses.
"""

import ast
import re
import textwrap

PYTHON = ("python", "python3", "py", "py3", "python2", "ipython", "pycon3", "cpython", "pypy", "pypy3")
MOST_CHARACTERS = 1_000_000
MOST_TRIES = 6
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([^`\n]*)$")
_READS = re.compile(r"\binput\s*\(|\bstdin\b|\bopen\s*\(\s*0|\bfileinput\b|\bos\.read\s*\(\s*0|/dev/stdin")


class Block:
    """A fenced block: its language (lower case, "" if none), its code, whether it was closed, and the lines of its fences."""

    def __init__(self, language, code, closed, first, last):
        self.language, self.code, self.closed, self.first, self.last = language, code, closed, first, last

    @property
    def is_markdown(self):
        return self.closed and self.language in ("markdown", "md")


def fenced_blocks(text):
    """The fenced blocks of a text in their order; the last may be unfinished."""
    lines = _lines(text)
    blocks, at = [], 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if opening is None:
            at += 1
            continue
        mark, info = opening.group(1), opening.group(2).strip()
        last = at + 1
        while last < len(lines) and not _closes(lines[last], mark):
            last += 1
        blocks.append(Block(_language(info), _body(lines, at, last), last < len(lines), at, last))
        at = last + 1
    return blocks


def _lines(text):
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _closes(line, mark):
    bare = line.strip()
    return len(bare) >= len(mark) and bare == mark[0] * len(bare)


def _body(lines, first, last):
    """What is between two fences, less the indentation of the first."""
    indent = len(lines[first]) - len(lines[first].lstrip(" \t"))
    return "\n".join(line[min(indent, len(line) - len(line.lstrip(" \t"))) :] for line in lines[first + 1 : last])


def _language(info):
    word = re.split(r"[\s{,:]", info.lstrip("{. "), maxsplit=1)[0]
    return word.rstrip("}").lower()


# ---- from here on only inside the sandbox
def choose(text, names=(), program=False):
    """The source to run, or None where the text hands in none.

    The last complete block of Python that defines one of `names`, with the blocks before it that define what it uses; for a program the
    last that reads input, else the last that parses. Without any fence the whole text is the code. An unfinished last block is no answer.

    Args:
        names: what the tests ask for; empty where anything goes.
        program: whether the code is run as a program.
    """
    if len(text) > MOST_CHARACTERS:
        return None
    found = _parsed_blocks(text)
    if not found:
        return text if text.strip() else None
    if not found[-1][0].closed:
        return None
    named = [item for item in found if item[0].language in PYTHON]
    mine = named or [item for item in found if item[0].language == ""]
    parsed = [(code, tree) for _, code, tree in mine if tree is not None]
    if not parsed:
        return mine[-1][1] if mine else None
    if program:
        reading = [code for code, _ in parsed if _READS.search(code)]
        return (reading or [code for code, _ in parsed])[-1]
    wanted = set(names)
    for imports in (False, True):
        for place in range(len(parsed) - 1, -1, -1):
            if not wanted or defined(parsed[place][1], imports) & wanted:
                return _with_helpers(parsed, place)
    return parsed[-1][0]


def _parsed_blocks(text):
    """(block, source, tree or None) of each block.

    Code may hold a fence itself, in a docstring say: a block of Python that does not parse is read on to the next closing fences.
    """
    lines, blocks = _lines(text), fenced_blocks(text)
    found, skip_to = [], -1
    for block in blocks:
        if block.first <= skip_to:
            continue
        if block.is_markdown:
            found += _parsed_blocks(block.code)
            continue
        tree, code = None, block.code
        if block.language in PYTHON or not block.language:
            code, tree = _parse(block.code)
        if tree is None and block.closed and block.language in PYTHON:
            mark = _FENCE.match(lines[block.first]).group(1)
            ends = [at for at in range(block.last + 1, len(lines)) if _closes(lines[at], mark)][:MOST_TRIES]
            for last in ends:
                longer, tree = _parse(_body(lines, block.first, last))
                if tree is not None:
                    code, skip_to = longer, last
                    break
        found.append((block, code, tree))
    return found


def _parse(code):
    """(source, tree), of the dedented source if only that parses; the tree is None where nothing does."""
    for source in (code, textwrap.dedent(code) if code[:1] in " \t" else None):
        if source is not None:
            try:
                return source, ast.parse(source)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
    return code, None


def _with_helpers(parsed, place):
    """The block, after those before it that define a name it uses and does not define itself."""
    code, tree = parsed[place]
    if place == 0:
        return code
    have = defined(tree)
    wanted = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - have
    helpers = []
    for earlier, its_tree in parsed[:place]:
        names = defined(its_tree)
        if names & wanted and not defined(its_tree, imports=False) & have:
            helpers.append(earlier)
    return "\n\n".join([*helpers, code])


def defined(tree, imports=True):
    """Names that a module defines at its top level, also inside `if` and `try`; with or without what it only imports."""
    names, todo = set(), list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            if isinstance(node, ast.ClassDef) and node.name == "Solution":
                names |= {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names} if imports else set()
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
        for field in ("body", "orelse", "finalbody", "handlers"):
            todo += getattr(node, field, [])
    return names
