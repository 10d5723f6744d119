"""Random small templates print what Python's jinja2 prints, in the surroundings of transformers, or fail where it fails.

The generator stays off the ground where the two differ by design: integers beyond 64 bits (an error here), the text of
a generator object, and errors that jinja2 finds only if somebody reads a generator.
"""
import pathlib
import random
import sys

import jinja2
import pytest

from template_lines import Lines

sys.path.append(str(pathlib.Path(__file__).parent / "tools"))
from render_template import environment  # noqa: E402, the oracle's surroundings

VARIABLES = {"s": "Hello, World", "u": "Zürich —日本語 éé", "e": "", "ml": "a\nb\r\n\n  c\td\n", "n": 5, "neg": -7, "f": 2.5,
             "z": 0, "t": True, "no": None, "l": [3, 1, 2], "ls": ["b", "a", "C", "a"], "d": {"b": 1, "a": "x", "C": None},
             "ld": [{"k": "x", "v": 1}, {"k": "Y", "v": 2}, {"k": "x", "v": 3}], "el": [], "ed": {}, "q": "it's \"q\" <b>&\\"}
STRINGS = ["s", "u", "e", "ml", "q", "' x '", "'12'", "'é' ~ n"]
LISTS = ["l", "ls", "ld", "el", "[1, 'a']", "range(4)", "(1, 2)", "ld[:2]"]
ATOMS = [*VARIABLES, "missing", "0", "-3", "2.0", "0.1", "1e3", "'a'", "none", "true", "[1, 2, 3]", "('a', 'b')", "{'a': 1}", "()"]
BINARY = "+ - * / // % ~ ~ + == != < <= > >= in and or".split() + ["not in"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean",
         "true", "odd", "even", "lower", "upper", "eq(1)", "in([1, 2])", "divisibleby(2)", "gt(1)"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "list", "string", "first", "last", "sort", "join",
           "join(', ')", "sum", "min", "max", "abs", "round", "round(1)", "tojson", "tojson(indent=2)", "float(1.5)",
           "tojson(sort_keys=true)", "tojson(ensure_ascii=true)", "default('D')", "default('D', true)", "dictsort", "e",
           "replace('a', 'ZZ')", "replace('', '-')", "indent", "indent(2, true)", "center(20)", "wordcount", "sort(reverse=true)"]
LIST_FILTERS = ["reverse", "unique", "batch(2)", "batch(2, 'x')", "slice(2)", "select", "reject('none')", "map('string')",
                "map('upper')", "map('tojson')", "select('string')"]
DICT_FILTERS = ["map(attribute='k')", "selectattr('k')", "selectattr('v', 'gt', 1)", "rejectattr('k', 'equalto', 'x')",
                "sort(attribute='v', reverse=true)", "groupby('k')", "map(attribute='zz', default='?')"]
METHODS = ["upper()", "title()", "swapcase()", "strip()", "lstrip('H')", "rstrip('d\\n')", "split()", "split('l', 1)",
           "rsplit('l', 1)", "rsplit(none, 1)", "splitlines()", "splitlines(true)", "startswith('H')", "endswith(('d', 'x'))",
           "find('o')", "rfind('o')", "count('l')", "replace('l', 'LL')", "replace('', '|', 2)", "partition('o')",
           "rpartition('o')", "ljust(15)", "rjust(15, '*')", "center(16)", "zfill(8)", "isdigit()", "isalpha()", "isupper()",
           "istitle()", "removeprefix('He')", "expandtabs(4)", "format(1)", "casefold()", "isspace()"]
FORMATS = ["'%d' % n", "'%5d|%-5d|' % (n, neg)", "'%05.1f' % f", "'%x %o %e' % (n, n, f)", "'%r %s' % (q, l)", "'%(a)s' % d",
           "'{:>8}|{:<8}|{:^8}'.format(s, n, f)", "'{:,} {:+d} {:.2f}'.format(n * 1000000, n, f)", "'{0}{1}{0}'.format(e, s)",
           "'{x[a]} {y!r}'.format(x=d, y=q)", "'{:*^{}}'.format(s, 20)"]


class Program:
    """A random template."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, options):
        return self.random.choice(options)

    def expression(self, depth):
        inner = self.expression
        if depth <= 0:
            return self.one(ATOMS)
        form = self.random.randrange(12)
        if form < 3:
            return f"({inner(depth - 1)} {self.one(BINARY)} {inner(depth - 1)})"
        if form == 3:
            return f"(not {inner(depth - 1)})"
        if form == 4:
            return f"({inner(depth - 1)} is {self.one(['', 'not '])}{self.one(TESTS)})"
        if form == 5:
            return f"({inner(depth - 1)} if {inner(depth - 1)} else {inner(depth - 1)})"
        if form == 6:
            return f"({self.one(STRINGS + LISTS)})[{self.one(['', '1', '-2', 'n'])}:{self.one(['', '3', '-1', 'z'])}{self.one(['', ':2', ':-1'])}]"
        if form == 7:
            return f"({self.one(STRINGS)}).{self.one(METHODS)}"
        if form == 8:
            return f"({self.one(LISTS)}|{self.one(LIST_FILTERS)}|{self.one(['list', 'join(chr)', 'first', 'list|tojson'])})"
        if form == 9:
            return f"(ld|{self.one(DICT_FILTERS)}|list)"
        if form == 10:
            return self.one(FORMATS)
        return f"({inner(depth - 1)}|{self.one(FILTERS)})"

    def output(self):
        return "{{" + self.one(["", "-"]) + f" {self.expression(2)} " + self.one(["", "-"]) + "}}"

    def tag(self, words):
        return "{%" + self.one(["", "", "-", "+"]) + f" {words} " + self.one(["", "", "-", "+"]) + "%}"

    def text(self):
        return self.one(["\n", "  ", "x", " y\n", "\n  ", "\t\n", "{# c #}", "{#- c\nd -#}\n", "{% raw %}{{ x }}{% endraw %}\n"])

    def body(self, depth):
        return "".join(self.one([self.text, self.output, lambda: self.statement(depth - 1)])()
                       for _ in range(self.random.randint(1, 4)))

    def statement(self, depth):
        if depth <= 0:
            return self.text()
        tag, body = self.tag, lambda: self.body(depth)
        form = self.random.randrange(8)
        if form == 0:
            return tag(f"if {self.expression(1)}") + body() + self.one([tag("else") + body(), ""]) + tag("endif")
        if form in (1, 2):
            end = self.one(["", "{% if loop.index == 2 %}{% break %}{% endif %}", "{% if loop.first %}{% continue %}{% endif %}"])
            detail = self.one(["loop.index", "loop.last", "loop.previtem", "loop.revindex", "loop.cycle('p', 'q')", "i"])
            return (tag(f"for i in {self.one([*LISTS, 'd', 's', 'missing'])}{self.one(['', ' if i'])}") + "{{ " + detail + " }}" +
                    body() + end + self.text() + self.one([tag("else") + body(), ""]) + tag("endfor"))
        if form == 3:
            return tag(f"set x = {self.expression(1)}") + body() + "{{ x }}"
        if form == 4:
            return tag(f"set x{self.one(['', ' | upper', ' | trim'])}") + body() + tag("endset") + "[{{ x }}]"
        if form == 5:
            call = self.one(["{{ m(1) }}", "{{ m() }}", "{{ m(1, 2, 3) }}", "{{ m(q=1, p=2) }}", "{% call m(1) %}B{% endcall %}"])
            extra = self.one(["", "{{ varargs }}", "{{ caller() }}"])
            return tag(f"macro m(p, q={self.one(ATOMS)})") + body() + "{{ p }}|{{ q }}" + extra + tag("endmacro") + call
        if form == 6:
            return tag(f"filter {self.one(['upper', 'trim', 'indent(2)'])}") + body() + tag("endfilter")
        return ("{% set ns = namespace(a=1) %}" + tag("for i in l") + "{% set ns.a = ns.a + i %}" + body() + tag("endfor") +
                "{{ ns.a }}" + tag("generation") + body() + tag("endgeneration"))

    def source(self):
        return self.one([self.output, lambda: self.statement(3)])()


def python(env, source):
    """The text, or None where Python fails."""
    try:
        return env.from_string(source).render({**VARIABLES, "chr": "/"})
    except Exception:
        return None


@pytest.fixture(scope="module")
def lines():
    with Lines(raw=True) as lines:
        yield lines


def beyond_the_design(text, error):
    """Where the two may differ, as the head of this file says."""
    return (text is not None and "object" in text) or "64 bits" in error


@pytest.mark.parametrize("block", range(20))
def test_random_programs_print_the_same(lines, block):
    env = environment()
    request = {"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {**VARIABLES, "chr": "/"}}
    compared = 0
    for seed in range(block * 150, block * 150 + 150):
        source = Program(seed).source()
        wanted, got = python(env, source), lines.render(source, request)
        if beyond_the_design(wanted, got.get("error", "")):
            continue
        assert got.get("text") == wanted, f"seed {seed}: {source!r}\n{got.get('error')}"
        compared += wanted is not None
    assert compared > 40
