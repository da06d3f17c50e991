"""What `format` asks of a string: jsonschema's checks, with those of their libraries replaced that are too lax or too slow."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

# The parsers of URI templates and of patterns take the square of a text's length; nobody writes longer ones.
LONGEST_PARSED = 2000


def format_checker(kind: Any) -> Any:
    """jsonschema's checker of a draft; e-mail addresses need more than an @, IRIs are checked as the URIs they stand for."""
    from jsonschema import FormatChecker

    known = dict(kind.FORMAT_CHECKER.checkers)
    known |= {"email": (is_email, ()), "idn-email": (is_email, ())}
    for iri, uri in (("iri", "uri"), ("iri-reference", "uri-reference")):
        if uri in known:
            known[iri] = (_iri_check(known[uri][0]), known[uri][1])
    for parsed in {"uri-template", "regex"} & known.keys():
        known[parsed] = (_short_only(known[parsed][0]), known[parsed][1])
    checker = FormatChecker(formats=())
    checker.checkers = known
    return checker


def _iri_check(is_uri: Any) -> Any:
    """RFC 3987, section 3.1: an IRI is what becomes a URI once its characters beyond ASCII are percent-encoded."""

    def check(value: Any) -> bool:
        if not isinstance(value, str):
            return True
        if any(c > "\x7f" and not _may_stand_in_an_iri(ord(c)) for c in value):
            return False
        return is_uri("".join(c if c <= "\x7f" else quote(c) for c in value))

    return check


def _may_stand_in_an_iri(code: int) -> bool:
    return 0xA0 <= code <= 0xD7FF or 0xF900 <= code <= 0xFDCF or 0xFDF0 <= code <= 0xFFEF or (0x10000 <= code <= 0xEFFFD and code & 0xFFFE != 0xFFFE)


def _short_only(check: Any) -> Any:
    return lambda value: not isinstance(value, str) or (len(value) <= LONGEST_PARSED and check(value))


def is_email(value: Any) -> bool:
    """One @, a local part without white space, and a domain of non-empty labels."""
    if not isinstance(value, str):
        return True
    local, _, domain = value.rpartition("@")
    quoted = len(local) > 2 and local[0] == local[-1] == '"'
    if not local or (not quoted and ("@" in local or any(c.isspace() for c in local) or "" in local.split("."))):
        return False
    if domain.startswith("[") and domain.endswith("]"):
        return len(domain) > 2
    return all(label and label[0] != "-" and label[-1] != "-" and all(c.isalnum() or c == "-" for c in label) for label in domain.split("."))
