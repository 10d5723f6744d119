"""Every filter, test, global and method that Python's jinja2 gives a chat template, one by one, on values of every kind:
the same text, or a failure where Python fails.

The names come from jinja2 and from Python's types themselves, so that none is forgotten; NOT_OURS lists those that no
chat template has a use for.
"""
import copy
import pathlib
import sys

import pytest

from template_lines import Lines

sys.path.append(str(pathlib.Path(__file__).parent / "tools"))
from render_template import environment  # noqa: E402, the oracle's surroundings

ENVIRONMENT = environment()
NOT_OURS = {"filters": {"filesizeformat", "pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr"},
            "globals": {"lipsum"},
            "str": {"encode", "format_map", "isidentifier", "maketrans", "translate"},
            "dict": {"fromkeys"}, "list": set(), "tuple": set(), "tests": set()}
CHANGING = {"dict": {"clear", "pop", "popitem", "setdefault", "update"},
            "list": {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"}}

VALUES = {"s": "Hello, World", "u": "Zürich —日本語 ÉÉß ΑΣ ǆ", "e": "", "ml": "a\nb\r\n\n  c\td\n", "i": 5, "neg": -7, "f": 2.5, "big": 1e22,
          "z": 0, "t": True, "no": None, "l": [3, 1, 2, 1], "ls": ["b", "a", "C", "a"], "d": {"b": 1, "a": "x", "C": None},
          "ld": [{"k": "x", "v": 1}, {"k": "Y", "v": 2}, {"k": "x", "v": 3}, {"v": 0}], "el": [], "ed": {}, "q": "it's \"q\" <b>&\\",
          "num": " 12 ", "hex": "0x1F", "flt": "-1.5e3", "sp": "  x  y  ", "nest": [[1, 2], [3]], "mix": [1, "a"], "fl": [0.1, 0.2, 3]}
MORE = ["missing", "(1, 'b')", "()", "range(5)", "range(10, 0, -3)", "d.items()", "d.keys()", "'<i>'|safe", "namespace(a=1)", "true", "-0.0",
        "9007199254740993", "1e16", "123456789.125", "'ﬁ ŉ İ'", "'a\\x00b'", "'\\u2028 \\u00a0'"]
# What a name is also called with, beside nothing.
ARGUMENTS = {
    "filters": {
        "attr": ["'a'", "'upper'", "'items'"], "batch": ["2", "3, 'x'", "99"], "center": ["20", "3", "width=9"],
        "default": ["'D'", "'D', true", "default_value=1, boolean=true"], "d": ["'D'", "'D', true"],
        "dictsort": ["true", "false, 'value'", "by='value', reverse=true", "by='k'"], "float": ["1.5", "default='x'"],
        "format": ["1", "1, 2", "a=1"], "groupby": ["'k'", "'v'", "'k', default='D'", "'k', case_sensitive=true", "0", "attribute='k'"],
        "indent": ["2", "2, true", "'> '", "2, true, true", "width=1, first=true", "blank=true"], "int": ["7", "7, 16", "0, 0", "base=8", "'x'"],
        "join": ["', '", "'-', 'k'", "attribute='v'", "d=1"], "map": ["'upper'", "attribute='k'", "attribute='zz', default='?'", "'default', 1",
                                                                      "attribute=0", "'nothing'", "'replace', 'a', 'b'", "attribute='k.x'"],
        "max": ["true", "attribute='v'", "case_sensitive=true"], "min": ["true", "attribute='v'", "case_sensitive=true"],
        "reject": ["'none'", "'odd'", "'equalto', 1", "'nothing'"], "rejectattr": ["'k'", "'v', 'odd'", "'k', 'equalto', 'x'"],
        "replace": ["'a', 'ZZ'", "'', '-'", "'l', 'L', 1", "1, 2", "old='H', new='J'"], "round": ["1", "-1", "2, 'ceil'", "0, 'floor'", "1, 'x'",
                                                                                                  "method='ceil'", "20"],
        "select": ["'string'", "'gt', 1", "'in', [1]"], "selectattr": ["'k'", "'v', 'gt', 1", "'k', 'defined'", "'v', 'in', [1, 2]"],
        "slice": ["2", "3, 'x'", "9"], "sort": ["true", "case_sensitive=true", "attribute='v'", "attribute='k,v'", "reverse=true, attribute='v'"],
        "sum": ["attribute='v'", "start=10", "'v', 5"], "tojson": ["indent=2", "ensure_ascii=true", "sort_keys=true", "separators=(',', ':')",
                                                                   "indent=0", "indent='\\t'", "indent=2, separators=(';', '=')"],
        "trim": ["'H'", "'dl'", "chars='x '", "none"], "truncate": ["5", "5, true", "5, false, '', 0", "8, leeway=0", "3, true, '…', 0", "-1"],
        "unique": ["true", "attribute='k'", "case_sensitive=true"],
    },
    "tests": {"sameas": ["1", "'a'", "s", "[1, 2]", "none"], **{name: ["1", "'a'", "2.5", "s", "[1, 2]", "none"] for name in
              ["divisibleby", "eq", "equalto", "ne", "lt", "lessthan", "le", "gt", "greaterthan", "ge", "in"]}},
    "str": {
        "center": ["20", "21, '*'", "20, '**'"], "count": ["'l'", "'', 1", "'l', 3, -1", "'', 99"], "endswith": ["'d'", "('d', 'x')", "'o', 0, 5", "'', 99"],
        "expandtabs": ["4", "0"], "find": ["'o'", "'o', 5", "'o', -3", "'', 3", "'', 99", "'l', 0, 3"], "format": ["1", "1, 2", "a=1"],
        "index": ["'o'", "'zz'", "'', 3"], "join": ["['a', 'b']", "'xyz'", "[1]", "d"], "ljust": ["20", "20, '.'"], "lstrip": ["'He'", "none"],
        "partition": ["'o'", "'zz'", "''"], "removeprefix": ["'He'", "''"], "removesuffix": ["'ld'", "''"],
        "replace": ["'l', 'LL'", "'', '|', 2", "'l', '', 1", "'l', 'x', -1"], "rfind": ["'o'", "'o', 0, 5", "'', 3", "'', 99", "''"],
        "rindex": ["'o'", "'zz'"], "rjust": ["20", "20, 'é'"], "rpartition": ["'o'", "'zz'"], "rsplit": ["'l'", "'l', 1", "none, 1", "'l', 0"],
        "rstrip": ["'d\\n'", "none"], "split": ["'l'", "'l', 1", "none, 1", "none, 0", "''", "' '", "sep='o', maxsplit=1"],
        "splitlines": ["true", "keepends=true"], "startswith": ["'H'", "('x', 'H')", "'e', 1", "'', 99", "1"], "strip": ["'Hd'", "none"],
        "zfill": ["20", "-3"],
    },
    "dict": {"get": ["'a'", "'zz', 1", "1", "missing"]},
    "list": {"count": ["1", "'a'"], "index": ["1", "'a'", "99"]},
    "tuple": {"count": ["1", "'b'"], "index": ["1", "'b'", "99"]},
}
OWNERS = {"str": ["s", "u", "e", "ml", "q", "sp", "num", "'-5'", "'ﬁ ŉ İ'", "'a.b'", "'ABC'", "'Title Case'", "'½²Ⅷ'", "'١٢'"],
          "dict": ["d", "ed", "{1: 2, (1, 2): 3}"], "list": ["l", "ls", "el", "nest"], "tuple": ["(1, 'b')", "()"]}
TYPES = {"str": str, "dict": dict, "list": list, "tuple": tuple}


def names_of(kind):
    if kind in TYPES:
        return {name for name in dir(TYPES[kind]) if not name.startswith("_")}
    return set(getattr(ENVIRONMENT, kind))


def calls_of(kind, name):
    return [None, *ARGUMENTS.get(kind, {}).get(name, [])]


def bracketed(arguments):
    return f"({arguments})" if arguments else ""


def expressions(kind, name):
    calls = calls_of(kind, name)
    if kind == "filters":
        return [f"{v}|{name}{bracketed(c)}" for v in [*VALUES, *MORE] for c in calls]
    if kind == "tests":
        if not name.isidentifier():
            return [f"l|select('{name}', {c})|list|string" for c in ("1", "2", "'a'")]
        values = [*VALUES, *MORE] if name not in ("filter", "test") else [*OWNERS["str"], "'upper'", "'odd'", "1", "missing"]
        return [f"{v} is {name}{bracketed(c)}" for v in values for c in calls]
    return [f"({owner}).{name}({c or ''})" for owner in OWNERS[kind] for c in calls]


def python(source):
    """The text, or None where Python fails. On a copy: jinja2's indent adds to a list that it is given."""
    try:
        return ENVIRONMENT.from_string(source).render(copy.deepcopy(VALUES))
    except Exception:
        return None


def as_object(wanted):
    return wanted is not None and (" at 0x" in wanted or "<bound method" in wanted)


def answers(lines, expression, request):
    """Python's and ours; of a generator its items."""
    source = "[{{ " + expression + " }}]"
    wanted = python(source)
    if as_object(wanted):
        source = "[{{ " + expression + "|list }}]"
        wanted = python(source)
    return wanted, lines.render(source, request)


@pytest.fixture(scope="module")
def lines():
    with Lines(raw=True) as lines:
        yield lines


def told_apart(wanted, error):
    """By design: the text of objects, integers beyond 64 bits, and pairs in an address."""
    return as_object(wanted) or "64 bits" in error or "urlencode: found" in error


CASES = [(kind, name) for kind in ("filters", "tests", "str", "dict", "list", "tuple")
         for name in sorted(names_of(kind) - NOT_OURS[kind] - CHANGING.get(kind, set()))]


@pytest.mark.parametrize("kind, name", CASES)
def test_each_does_what_python_s_does(lines, kind, name):
    request = {"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": VALUES}
    compared, wrong = 0, []
    for expression in expressions(kind, name):
        wanted, got = answers(lines, expression, request)
        if told_apart(wanted, got.get("error", "")):
            continue
        compared += wanted is not None
        if got.get("text") != wanted:
            wrong.append(f"{expression}: found {got.get('text', got.get('error'))!r}, wanted {wanted!r}")
    assert not wrong, "\n" + "\n".join(wrong)
    assert compared


@pytest.mark.parametrize("kind", CHANGING)
def test_what_would_change_a_value_is_refused(lines, kind):
    request = {"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": VALUES}
    for name in CHANGING[kind]:
        source = "{{ " + f"{OWNERS[kind][0]}.{name}(1)" + " }}"
        assert python(source) is None
        assert "would change a value" in lines.render(source, request)["error"], name


def test_globals_are_known(lines):
    request = {"messages": [{"role": "user", "content": "x"}]}
    for name in names_of("globals") - NOT_OURS["globals"]:
        assert lines.render("{{ " + name + " is defined }}", request)["text"] == "True", name
