"""A server given a hostile chat template: each request ends in an error within seconds, and the server lives on."""
import threading
import time

import pytest

from server import real_server
from support import SANITIZED

SECONDS = 60 if SANITIZED else 10  # about one, on a quiet core
AGAIN = "{% for i in range(99999) %}{% set x = WHAT %}{% endfor %}"
HOSTILE = {
    "loops in loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a huge range": "{{ range(10 ** 15) | list }}",
    "many ranges": "{% for a in range(99999) %}{% set l = range(99999) | list %}{% endfor %}",
    "a string that doubles": "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "a list that doubles": "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "a macro in itself": "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}",
    "a macro twice in itself": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "a loop in itself": "{% set n = namespace(x=[1]) %}{% for i in n.x recursive %}{{ loop(n.x) }}{% endfor %}",
    "much output": "{% for a in range(99999) %}{{ 'a' * 100000 }}{% endfor %}",
    "a wide number": "{{ '%999999999d' % 1 }}",
    "tojson": "{% set l = range(90000) | list %}" + AGAIN.replace("WHAT", "l | tojson"),
    "tojson of escapes": "{% set s = '\\x01' * 500000 %}" + AGAIN.replace("WHAT", "s | tojson"),
    "tojson of floats": "{% set l = [0.1234567890123] * 90000 %}" + AGAIN.replace("WHAT", "l | tojson"),
    "lower": "{% set s = 'a' * 900000 %}" + AGAIN.replace("WHAT", "s is lower"),
    "upper": "{% set s = 'é' * 300000 %}" + AGAIN.replace("WHAT", "s | upper"),
    "casefold": "{% set s = 'ß' * 300000 %}" + AGAIN.replace("WHAT", "s.casefold()"),
    "join": "{% set l = [''] * 90000 %}" + AGAIN.replace("WHAT", "l | join"),
    "in": "{% set s = 'a' * 900000 %}{% set k = 'a' * 30 ~ 'b' %}" + AGAIN.replace("WHAT", "k in s"),
    "splitlines": "{% set s = 'a' * 900000 %}" + AGAIN.replace("WHAT", "s.splitlines()"),
    "strip": "{% set s = ' ' * 3000000 %}" + AGAIN.replace("WHAT", "s.strip('xyz ')"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_gets_an_error_and_the_server_lives_on(tmp_path, name):
    (tmp_path / "hostile.jinja").write_text(HOSTILE[name] + "{{ messages[0].content }}")
    with real_server(tmp_path, "--chat-template", tmp_path / "hostile.jinja") as server:
        answers = []
        asking = threading.Thread(target=lambda: answers.append(server.chat()), daemon=True)
        start = time.monotonic()
        asking.start()
        assert server.get("/health")[0] == 200  # others are served meanwhile
        asking.join(SECONDS)
        assert answers, f"no answer after {time.monotonic() - start:.1f} s"
        status, _, body = answers[0]
        assert status in (400, 500) and "line 1, column" in body["error"]["message"]
        assert server.post("/v1/completions", {"prompt": "a", "max_tokens": 2})[2]["choices"][0]["text"] == "bc"
