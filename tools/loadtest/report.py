"""What was seen, what of it must not be, and the table that says so."""
import collections
import statistics
import time

from client import LEAVE, SLOW_READ, STREAM

MB = 1_000_000


def percentiles(values, scale=1e3):
    """(median, 90 %, 99 %, longest) in milliseconds."""
    if not values:
        return None
    ordered = sorted(values)
    return [round(scale * ordered[min(len(ordered) - 1, int(len(ordered) * p))], 1) for p in (0.5, 0.9, 0.99, 1)]


class Report:
    def __init__(self, options, target):
        self.options, self.target = options, target
        self.violations, self.requests, self.errors = [], collections.Counter(), collections.Counter()
        self.first, self.between, self.whole = [], [], []
        self.usage_tokens = self.counted_tokens = self.prompt_tokens = self.cached_tokens = self.left_tokens = 0
        self.samples = []  # (time, resident bytes)

    def violate(self, kind, text):
        self.errors[kind] += 1
        if self.errors[kind] <= 5:
            self.violations.append(f"{kind}: {text}")

    # ---- Alone ----

    def alone(self, question):
        self.check_usage(question, question.expected)

    def alone_sums(self, before, after, plan):
        """The server's own count, exact as long as nobody leaves."""
        made = after["shimmy_generated_tokens_total"] - before["shimmy_generated_tokens_total"]
        counted = sum(q.expected.tokens for q in plan)
        if made != counted:
            self.violate("tokens", f"alone, the server says it made {made:.0f}, the client counted {counted}")

    def check_usage(self, question, outcome):
        counted, said = outcome.tokens, outcome.usage and outcome.usage["completion_tokens"]
        if counted is None:
            counted = question.expected.tokens
        if said != counted:
            self.violate("tokens", f"question {question.number}: usage says {said}, the client counted {counted}")
        return said or 0, counted

    # ---- Under load ----

    def begin(self, metrics, descriptors):
        self.before, self.descriptors_before, self.began = metrics, descriptors, time.monotonic()

    def memory(self, when, resident):
        if resident:
            self.samples.append((when, resident))

    def take(self, question, manner, outcome, why):
        self.requests[manner] += 1
        expected = question.expected
        if why is not None:
            self.violate("errors", f"question {question.number} ({manner}): {type(why).__name__}: {why}")
            return
        if manner == LEAVE and not outcome.finish:
            self.left_tokens += outcome.counted or 0
            if not expected.text.startswith(outcome.text):
                self.violate("texts", f"question {question.number} (left): {outcome.text!r} does not begin {expected.text!r}")
            return
        if manner == LEAVE and outcome.usage is None:
            return  # left between the last piece and the usage
        if (outcome.text, outcome.finish) != (expected.text, expected.finish):
            self.violate("texts", f"question {question.number} ({manner}): {outcome.text!r} ({outcome.finish}), alone "
                                  f"{expected.text!r} ({expected.finish})")
        said, counted = self.check_usage(question, outcome)
        self.usage_tokens += said
        self.counted_tokens += counted
        self.prompt_tokens += outcome.usage["prompt_tokens"]
        self.cached_tokens += outcome.usage["prompt_tokens_details"]["cached_tokens"]
        if outcome.usage["prompt_tokens"] != expected.usage["prompt_tokens"]:
            self.violate("tokens", f"question {question.number}: {outcome.usage['prompt_tokens']} of the prompt")
        self.note_times(manner, outcome)

    def note_times(self, manner, outcome):
        """Of a slow reader only the client's slowness would be measured."""
        if manner == STREAM and len(outcome.times) > 1:
            self.first.append(outcome.times[1] - outcome.times[0])
            self.between += [b - a for a, b in zip(outcome.times[1:], outcome.times[2:])]
        if manner not in (SLOW_READ, LEAVE) and len(outcome.times) > 1:
            self.whole.append(outcome.times[-1] - outcome.times[0])

    # ---- The end ----

    def end(self, metrics, descriptors):
        generated = metrics["shimmy_generated_tokens_total"] - self.before["shimmy_generated_tokens_total"]
        self.generated, self.took = int(generated), time.monotonic() - self.began
        if self.usage_tokens != self.counted_tokens:
            self.violate("tokens", f"usage sums up to {self.usage_tokens}, the clients counted {self.counted_tokens}")
        if generated < self.usage_tokens + self.left_tokens:
            self.violate("tokens", f"the server says it made {generated:.0f}, clients got {self.usage_tokens + self.left_tokens}")
        for name in ("shimmy_requests_running", "shimmy_requests_waiting"):
            if metrics[name]:
                self.violate("rest", f"{name} is {metrics[name]:.0f}")
        if metrics["shimmy_connections"] > 1:
            self.violate("rest", f"{metrics['shimmy_connections']:.0f} connections are open, only one asks")
        if descriptors and descriptors > self.descriptors_before + 1:
            self.violate("rest", f"{descriptors} descriptors are open, before {self.descriptors_before}")
        self.check_memory()

    def quarter(self, number):
        """Median memory of a quarter of the time."""
        n = len(self.samples)
        return statistics.median(bytes for _, bytes in self.samples[n * number // 4:max(n * (number + 1) // 4, 1)])

    def check_memory(self):
        self.middle, self.last = (self.quarter(1), self.quarter(3)) if len(self.samples) > 8 else (None, None)
        if self.middle and self.last > self.middle + self.options.growth * MB:
            self.violate("memory", f"{self.middle / MB:.1f} MB in the second quarter of the time, {self.last / MB:.1f} in the last")

    def again(self, question, outcome):
        if outcome.text != question.expected.text:
            self.violate("rest", f"question {question.number} alone has another text than before")

    def ended(self, code):
        if self.target.process and code:
            self.violate("rest", f"the server ended with {code}")

    # ---- Telling ----

    def values(self):
        return {
            "clients": self.options.clients, "seconds": round(self.took, 1), "seed": self.options.seed,
            "requests": dict(self.requests), "errors": dict(self.errors),
            "prompt_tokens": self.prompt_tokens, "cached_tokens": self.cached_tokens,
            "answer_tokens": {"usage": self.usage_tokens, "counted": self.counted_tokens, "server": self.generated},
            "tokens_a_second": round(self.generated / self.took, 1),
            "first_token_ms": percentiles(self.first), "between_tokens_ms": percentiles(self.between),
            "request_ms": percentiles(self.whole),
            "resident_mb": {"start": self.samples and round(self.samples[0][1] / MB, 1), "middle": self.middle and round(self.middle / MB, 1),
                            "end": self.last and round(self.last / MB, 1), "most": self.samples and round(max(b for _, b in self.samples) / MB, 1)},
            "violations": self.violations,
        }

    def text(self):
        v = self.values()
        rows = [("clients", f"{v['clients']} for {v['seconds']:.0f} s, seed {v['seed']}"),
                ("requests", f"{sum(v['requests'].values())}: " + ", ".join(f"{n} {k}" for k, n in sorted(v["requests"].items()))),
                ("prompt tokens", f"{v['prompt_tokens']}, of them cached {v['cached_tokens']}"),
                ("answer tokens", "usage {usage}, counted {counted}, made by the server {server}".format(**v["answer_tokens"])),
                ("tokens/s", v["tokens_a_second"])]
        for name in ("first_token_ms", "between_tokens_ms", "request_ms"):
            if v[name]:
                rows.append((name, "median {}, 90 % {}, 99 % {}, longest {}".format(*v[name])))
        rows.append(("resident_mb", ", ".join(f"{k} {n}" for k, n in v["resident_mb"].items())))
        rows.append(("errors", ", ".join(f"{n} {k}" for k, n in v["errors"].items()) or "none"))
        return "\n".join(f"{name:18} {value}" for name, value in rows) + "".join(f"\n! {text}" for text in self.violations)
