"""What is asked: questions of all lengths, greedy and seeded, as chats and as texts to go on with, made from a seed."""
import random

WORDS = ("harvest price bread stone river winter letter window garden market engine silver summer corner paper ship island "
         "music bridge forest captain kitchen morning teacher number story road train cloud doctor painter ocean night bird "
         "mountain clock farmer village lamp coffee mirror dragon planet school football history language weather").split()
TASKS = ("Tell a story about {}.", "Explain {} to a child.", "List five facts about {}.", "Write a letter that mentions {}.",
         "What would you ask somebody who knows {}?", "Summarize: {}.")
SYSTEMS = (None, "You are a helpful assistant.", "Answer shortly.", "You write for a newspaper. " * 40)  # the last fills pages


class Question:
    """One request's body, and what its answer must be once it was asked alone."""

    def __init__(self, number, path, fields):
        self.number, self.path, self.fields, self.expected = number, path, fields, None

    @property
    def chat(self):
        return self.path.endswith("/chat/completions")

    def body(self, stream, counted):
        """`counted`: with the log-probability of each token, by which a client counts them."""
        body = dict(self.fields, stream=stream)
        if stream:
            body["stream_options"] = {"include_usage": True}
        if counted:
            body["logprobs"] = True if self.chat else 0
        return body


def words(r, most):
    """As many of them short as long: the logarithm of the length is even."""
    return " ".join(r.choices(WORDS, k=round(2 * (most / 2) ** r.random())))


def one(number, options):
    r = random.Random(f"{options.seed} {number}")
    text = r.choice(TASKS).format(words(r, options.words))
    fields = {"max_tokens": r.randint(1, options.answer), "temperature": 0}
    if r.random() < 0.5:
        fields = {**fields, "temperature": r.choice((0.5, 0.8, 1.2)), "top_p": r.choice((1, 0.9)), "seed": r.randrange(2**31)}
    if r.random() < 0.25:
        return Question(number, "/v1/completions", {"prompt": text, **fields})
    system = r.choice(SYSTEMS)
    messages = [{"role": "system", "content": system}] if system else []
    return Question(number, "/v1/chat/completions", {"messages": [*messages, {"role": "user", "content": text}], **fields})


def questions(options):
    return [one(i, options) for i in range(options.questions)]
