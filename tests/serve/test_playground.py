"""Tests of the playground in headless Chromium, with a real server."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import random_model
from server_app import ServerApp

from elmo.embed.embedder import ELMo
from elmo.evaluate.probe_vectors import unit
from elmo.semantics.word_scorer import WordScorer
from elmo.serve.http_server import HttpServer, open_listener
from elmo.serve.loaded_model import LoadedModel
from elmo.serve.playground.playground_page import playground_page

TEXT = "the cat sat on the mat .\n\nthe dog sat ."
HOSTILE = (
    'it\'s "quoted" \\n $HOME `id` !! <b>&amp;</b> </script>\n'
    "zero\u200bwidth \u202ereversed \x7f caf\u00e9 cafe\u0301 "
    "\U0001f469\u200d\U0001f4bb \u6f22\u5b57"
)
RTL = "שלום עולם טוב\nقال الرجل كلمة"


class ThreadServer(HttpServer):
    """A server outside of the main thread, which signals do not reach."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield


@contextlib.contextmanager
def serve(app):
    """Serve an application and yield its address."""
    with open_listener(app.state.config) as listener:
        server = ThreadServer(app.state, app.app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(10)


def plain_model(name, **extra):
    return LoadedModel(name, ELMo(random_model(scale=1.5, **extra)))


@pytest.fixture(scope="module")
def app():
    others = {
        "plain": plain_model("plain"),
        "korean": plain_model("korean", attribution={"language": "ko"}),
    }
    with ServerApp(others=others, port=0) as app:
        yield app


@pytest.fixture(scope="module")
def address(app):
    with serve(app) as address:
        yield address


@pytest.fixture
def opened_on(chromium):
    """Return a function that serves an application and opens its page."""
    with contextlib.ExitStack() as stack:

        def open_page(**settings):
            app = stack.enter_context(ServerApp(port=0, **settings))
            page = PlaygroundTest(chromium, stack.enter_context(serve(app)))
            stack.callback(page.browser_page.close)
            return page

        yield open_page


class PlaygroundTest:
    """An open page of the playground."""

    def __init__(self, browser, address):
        self.browser_page = browser.page(1100, 900)
        self.address = address
        self.js = self.browser_page.evaluate
        self.browser_page.open(address)

    def settle(self):
        """Wait until the page shows the answer for its controls."""
        self.js("if (playground.typing) playground.update()")
        self.browser_page.wait("document.querySelector('main').ariaBusy === 'false'")

    def type(self, text):
        """Replace the text as a visitor does."""
        self.js("document.querySelector('#text').select()")
        self.browser_page.click("#text")
        self.js("document.querySelector('#text').select()")
        self.browser_page.type_text(text)
        self.settle()

    def put(self, text):
        """Replace the text at once; the browser inserts long texts slowly."""
        self.js(
            f"(() => {{ const e = document.querySelector('#text'); e.value = {json.dumps(text)};"
            "e.dispatchEvent(new Event('input')); })()"
        )
        self.settle()

    def pick(self, name, value):
        """Click a mode or the language of the request."""
        self.browser_page.click(f"label:has(input[name={name}][value={value}])")
        self.settle()

    def set(self, name, value):
        """Choose an option of a select."""
        self.js(
            f"(() => {{ const e = document.querySelector('#{name}'); e.value = {value!r};"
            "e.dispatchEvent(new Event('change')); })()"
        )
        self.settle()

    def hold_requests(self):
        """Delay all requests until the test releases them."""
        self.js(
            "(() => { const { server } = playground; const call = server.call.bind(server);"
            "window.held = []; const gate = new Promise((open) => { window.release = open; });"
            "server.call = (...all) => { held.push(gate.then(() => call(...all)));"
            "return held.at(-1); }; })()"
        )

    def release_requests(self):
        """Send the requests that were held, and wait until the page has their answers."""
        self.js(
            "(async () => { release(); await Promise.allSettled(held);"
            "await new Promise((resolve) => setTimeout(resolve)); })()"
        )

    def edit(self, text):
        """Replace the text as a visitor who has not stopped typing."""
        self.js(
            f"(() => {{ const e = document.querySelector('#text'); e.value = {json.dumps(text)};"
            "e.dispatchEvent(new Event('input')); clearTimeout(playground.typing); })()"
        )

    def value(self):
        return self.js("document.querySelector('#text').value")

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)}).innerText")

    def texts(self, selector):
        return self.js(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)"
        )

    def words(self):
        return self.texts(".word :first-child")

    def values(self):
        return [float(text) for text in self.texts(".word .value")]

    def is_shown(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)}).checkVisibility()")

    def press(self, *keys):
        for key in keys:
            self.browser_page.press(key)
        self.settle()

    def code(self, language):
        self.pick("language", language)
        return self.js("document.querySelector('#code').textContent")

    def run(self, language):
        """Run the shown code in a process and return its output."""
        code = self.code(language)
        command = ["bash", "-c", code] if language == "curl" else [sys.executable, "-c", code]
        environment = {**os.environ, "ELMO_SERVE_TOKEN": "secret", "PYTHONIOENCODING": "utf-8"}
        return subprocess.run(
            command, capture_output=True, check=True, timeout=20, env=environment
        ).stdout.decode()

    def check(self, n_failed=0):
        """Check that there were no errors and that nothing but the server was asked."""
        errors = self.browser_page.errors()
        failed = [text for text in errors if text.startswith("Failed to load resource")]
        assert len(failed) == n_failed
        assert errors == failed
        requests = self.browser_page.requests()
        assert requests
        assert all(url.startswith(self.address) for url in requests)


@pytest.fixture
def opened(chromium, address):
    page = PlaygroundTest(chromium, address)
    page.settle()
    yield page
    page.browser_page.close()


def test_page_needs_no_other_files():
    page = playground_page()
    assert "connect-src 'self'" in page
    assert "http" not in page.replace("http-equiv", "")


def test_page_is_served_with_policies(app):
    answer = app.client.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert answer.text == playground_page()


def test_page_starts_with_an_example(opened):
    assert opened.text("#chosen") == "bank"
    assert opened.text(".word[aria-selected=true] :first-child") == "bank"
    assert opened.values()[opened.words().index("bank")] == pytest.approx(1)
    opened.browser_page.click("#examples button:nth-of-type(2)")
    opened.settle()
    assert opened.text("#chosen") == "play"
    opened.check()


def test_words_are_colored_by_similarity_to_the_clicked_word(opened, app):
    opened.type(TEXT)
    assert opened.words() == TEXT.split()
    opened.browser_page.click("#word-1-1")
    opened.settle()
    assert opened.text("#chosen") == "dog"
    for layer in ("2", "0", "average"):
        opened.set("layer", layer)
        sentences = [line.split() for line in TEXT.splitlines() if line]
        vectors = [unit(item) for item in app.elmo.encode(sentences, layers=layer)]
        expected = np.concatenate(vectors) @ vectors[1][1]
        np.testing.assert_allclose(opened.values(), expected, atol=0.0051)
        color = opened.js("document.querySelector('#word-1-1').style.background")
        assert color == "rgb(222, 108, 88)"
    ranked = [float(text) for text in opened.texts(".ranked .number")]
    assert ranked == sorted(opened.values()[:8] + opened.values()[9:], reverse=True)[:10]
    opened.browser_page.click(".ranked")
    opened.settle()
    assert opened.text("#chosen") != "dog"
    opened.check()


def test_typing_updates_the_words(opened):
    opened.js("document.querySelector('#text').select()")
    opened.browser_page.click("#text")
    opened.js("document.querySelector('#text').select()")
    opened.browser_page.type_text("one two")
    opened.browser_page.wait("document.querySelectorAll('.word').length === 2")
    opened.browser_page.wait("document.querySelectorAll('.ranked').length === 1")
    opened.check()


def test_surprisal_is_shown_in_both_directions(opened, app):
    opened.type(TEXT)
    opened.pick("mode", "surprisal")
    sentences = [line.split() for line in TEXT.splitlines() if line]
    scores = WordScorer(app.elmo).score(sentences)
    forward = -np.concatenate([item.forward for item in scores]) / np.log(2)
    backward = -np.concatenate([item.backward for item in scores]) / np.log(2)
    np.testing.assert_allclose(opened.values(), (forward + backward) / 2, atol=0.051)
    opened.set("direction", "forward")
    np.testing.assert_allclose(opened.values(), forward, atol=0.051)
    opened.set("direction", "backward")
    np.testing.assert_allclose(opened.values(), backward, atol=0.051)
    assert "Forward" in opened.text("#results")
    assert "not in the vocabulary" not in opened.text("#results")
    opened.type("the zebra")
    opened.browser_page.click("#word-0-1")
    opened.settle()
    assert "not in the vocabulary" in opened.text("#results")
    opened.check()


def test_substitute_is_put_into_the_sentence(opened):
    opened.type("\U0001f600 \n\n  the cat  sat .")
    opened.browser_page.click("#word-1-1")
    opened.pick("mode", "substitutes")
    names = opened.texts(".ranked .name")
    assert "cat" not in names
    assert len(names) > 3
    opened.browser_page.click(".ranked")
    opened.settle()
    assert opened.value() == f"\U0001f600 \n\n  the {names[0]}  sat ."
    assert opened.text("#chosen") == names[0]
    opened.check()


def test_results_of_the_last_word_do_not_act(opened):
    opened.type("the cat sat .\nthe dog sat .")
    opened.browser_page.click("#word-0-1")
    opened.pick("mode", "substitutes")
    opened.hold_requests()
    opened.browser_page.click("#word-1-1")
    opened.js("document.querySelector('#direction').dispatchEvent(new Event('change'))")
    assert opened.text("#chosen") == "cat"
    for selector in ("#chosen", "#results"):
        opened.browser_page.wait(
            f"getComputedStyle(document.querySelector('{selector}')).opacity === '0.5'"
        )
    opened.browser_page.click(".ranked")
    assert opened.value() == "the cat sat .\nthe dog sat ."
    opened.release_requests()
    opened.settle()
    assert opened.text("#chosen") == "dog"
    name = opened.texts(".ranked .name")[0]
    opened.browser_page.click(".ranked")
    opened.settle()
    assert opened.value() == f"the cat sat .\nthe {name} sat ."
    opened.check()


def test_results_and_words_of_the_last_text_do_not_act(opened):
    opened.type("the cat sat .")
    opened.browser_page.click("#word-0-1")
    opened.pick("mode", "substitutes")
    opened.hold_requests()
    opened.browser_page.click("#word-0-2")
    opened.edit("a new text")
    opened.release_requests()
    assert opened.js("document.querySelector('main').ariaBusy") == "true"
    assert opened.text("#chosen") == "cat"
    opened.browser_page.click(".ranked")
    opened.browser_page.click("#word-0-0")
    assert opened.value() == "a new text"
    opened.settle()
    assert opened.words() == ["a", "new", "text"]
    assert opened.text("#chosen") == "text"
    opened.check()


def test_substitute_is_put_into_the_line_that_has_moved(opened):
    opened.type("the cat sat .")
    opened.browser_page.click("#word-0-1")
    opened.pick("mode", "substitutes")
    opened.put("\nthe cat sat .")
    name = opened.texts(".ranked .name")[0]
    opened.browser_page.click(".ranked")
    opened.settle()
    assert opened.value() == f"\nthe {name} sat ."
    opened.check()


def test_words_of_a_model_that_cannot_be_loaded_are_not_shown(opened_on):
    others = {"plain": plain_model("plain")}
    page = opened_on(others=others)
    page.settle()
    page.js("delete playground.info.models.plain.layers")  # as of a model that is not loaded
    offline = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.browser_page.call("Network.emulateNetworkConditions", offline=True, **offline)
    page.set("model", "plain")
    assert page.text("#problem-text") == "The server cannot be reached."
    assert page.words() == []
    page.browser_page.call("Network.emulateNetworkConditions", offline=False, **offline)
    page.set("model", "tiny")
    assert "bank" in page.words()
    page.check(n_failed=1)


def test_nearest_senses_show_example_sentences(opened):
    opened.type("An otter slid down the bank and vanished among the reeds.")
    opened.browser_page.click("#word-0-5")
    opened.pick("mode", "neighbors")
    assert opened.text(".neighbor b") == "bank"
    assert opened.text(".neighbor .sense") == "river"
    assert opened.text(".neighbor .facts span") == "1.00"
    assert "An otter slid down the bank" in opened.text(".neighbor")
    opened.check()


def test_keyboard_moves_between_words(opened):
    opened.type(TEXT)
    opened.js("document.querySelector('#words').focus()")
    selected = []
    keys = (
        "Home",
        "ArrowLeft",
        "ArrowRight",
        "End",
        "ArrowRight",
        "ArrowLeft",
        "ArrowUp",
        "ArrowDown",
    )
    for key in keys:
        opened.press(key)
        selected.append(
            opened.js("document.querySelector('#words').ariaActiveDescendantElement.id")
        )
    assert [name.removeprefix("word-") for name in selected[:6]] == [
        "0-0", "0-0", "0-1", "0-6", "1-0", "0-6",
    ]  # fmt: skip
    assert selected[6] == "word-0-6"
    assert selected[7].startswith("word-1-")
    opened.js("document.querySelector('input[name=mode]:checked').focus()")
    opened.press("ArrowRight")
    assert opened.js("playground.answer.mode") == "surprisal"
    opened.check()


def test_words_that_cannot_be_seen_are_shown_by_code_point(opened):
    opened.type("zero\u200bwidth \u200f")
    assert opened.words() == ["zero\u200bwidth", "U+200F"]
    opened.browser_page.click("#word-0-1")
    opened.settle()
    assert opened.text("#chosen") == "U+200F"
    opened.check()


def test_lines_from_right_to_left_follow_their_direction(opened):
    opened.type(RTL)
    assert opened.words() == RTL.split()
    left = opened.js(
        "[...document.querySelectorAll('.word')].slice(0, 3)"
        ".map((word) => word.getBoundingClientRect().left)"
    )
    assert left == sorted(left, reverse=True)
    opened.js("document.querySelector('#words').focus()")
    opened.press("Home", "ArrowLeft")
    assert opened.text("#chosen") == RTL.split()[1]
    opened.check()


@pytest.mark.parametrize("mode", ["similarity", "surprisal", "substitutes", "neighbors"])
def test_shown_requests_run(opened, app, mode):
    opened.type(HOSTILE)
    opened.browser_page.click("#word-1-1")
    opened.pick("mode", mode)
    shown = opened.js("playground.answer.data")
    assert opened.js("document.querySelectorAll('#words :is(b, script), #chosen *').length") == 0
    if shutil.which("curl"):
        assert json.loads(opened.run("curl")) == shown
    output = opened.run("python")
    lines = output.splitlines()
    if mode in ("similarity", "surprisal"):
        assert len(lines) == 2
        assert "zero\\u200bwidth" in output
    else:
        data = shown["positions"][0]["substitutes"] if mode == "substitutes" else shown["neighbors"]
        assert len(lines) == len(data)
    assert (
        opened.js("/[\\u200b\\u202e]/.test(document.querySelector('#code').textContent)") is False
    )
    opened.check()


def test_code_is_copied(opened, chromium, address):
    chromium.call(
        "Browser.grantPermissions",
        permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
        origin=address.rstrip("/"),
    )
    opened.browser_page.call("Page.bringToFront")
    opened.pick("language", "python")
    opened.browser_page.click("#copy")
    opened.browser_page.wait("document.querySelector('#copy').textContent === 'Copied'")
    copied = opened.js("navigator.clipboard.readText()")
    assert copied == opened.js("document.querySelector('#code').textContent")
    assert copied.startswith("import json")
    opened.check()


def test_model_without_softmax_has_no_surprisal(opened):
    opened.pick("mode", "surprisal")
    assert opened.is_shown("#model")
    opened.set("model", "plain")
    assert opened.js("playground.answer.mode") == "similarity"
    assert opened.js("document.querySelector('input[value=surprisal]').disabled")
    assert opened.js("document.querySelector('input[value=substitutes]').disabled")
    assert "which plain was saved without" in opened.text("#no-softmax")
    assert '"model": "plain"' in opened.code("curl")
    opened.set("model", "tiny")
    assert not opened.is_shown("#no-softmax")
    assert not opened.js("document.querySelector('input[value=surprisal]').disabled")
    opened.check()


def test_model_of_another_language_has_no_nearest_senses(opened):
    opened.pick("mode", "neighbors")
    assert not opened.is_shown("#no-neighbors")
    opened.set("model", "korean")
    assert opened.js("playground.answer.mode") == "similarity"
    assert opened.js("document.querySelector('input[value=neighbors]').disabled")
    assert opened.text("#no-neighbors") == (
        "Nearest senses come from English sentences, but the language of korean is ko."
    )
    opened.set("model", "tiny")
    assert not opened.is_shown("#no-neighbors")
    assert not opened.js("document.querySelector('input[value=neighbors]').disabled")
    opened.check()


def test_empty_text_asks_for_a_sentence(opened):
    opened.type(" ")
    assert opened.is_shown("#hint")
    assert opened.words() == []
    assert not opened.is_shown("#request")
    assert not opened.is_shown("#details")
    opened.type("the cat")
    assert not opened.is_shown("#hint")
    assert opened.words() == ["the", "cat"]
    opened.check()


def test_errors_of_the_server_are_shown(opened):
    opened.type("a\n\n" + "word " * 1100)
    assert opened.text("#problem-text") == (
        "Line 3 has 1100 words, more than 1024. Split it into sentences."
    )
    assert opened.words() == []
    assert not opened.is_shown("#request")
    assert not opened.is_shown("#retry")
    opened.type("the cat")
    assert not opened.is_shown("#problem")
    assert opened.words() == ["the", "cat"]
    opened.check(n_failed=1)


def test_ten_thousand_words_are_shown_or_rejected(opened):
    opened.put("the cat sat on the mat and the dog .\n" * 1000)
    assert len(opened.words()) == 10_000
    assert len(opened.values()) == 10_000
    opened.put("a\n" * 1100)
    assert opened.text("#problem-text") == "sentences has 1100 items, more than 1024."
    opened.put("word " * 10_000)
    assert "Line 1 has 50000 characters, more than 32768" in opened.text("#problem-text")
    opened.check(n_failed=2)


def test_server_that_cannot_be_reached_can_be_tried_again(opened_on):
    page = opened_on()
    page.settle()
    page.browser_page.call(
        "Network.emulateNetworkConditions",
        offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1,
    )  # fmt: skip
    page.type("the cat")
    assert page.text("#problem-text") == "The server cannot be reached."
    page.browser_page.call(
        "Network.emulateNetworkConditions",
        offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1,
    )  # fmt: skip
    page.browser_page.click("#retry")
    page.settle()
    assert page.words() == ["the", "cat"]
    page.check(n_failed=1)


def test_token_is_asked_for_and_not_shown(opened_on):
    page = opened_on(token="secret")
    page.settle()
    assert page.is_shown("#access")
    assert not page.is_shown("#problem")
    page.browser_page.type_text("wrong")
    page.browser_page.click("#access button")
    page.settle()
    assert "The token is missing or wrong" in page.text("#problem-text")
    page.js("document.querySelector('#token').value = ''")
    page.js("document.querySelector('#token').focus()")
    page.browser_page.type_text("secret")
    page.browser_page.click("#access button")
    page.settle()
    assert not page.is_shown("#access")
    assert not page.is_shown("#problem")
    assert "bank" in page.words()
    for language in ("curl", "python"):
        assert "secret" not in page.code(language)
        assert "ELMO_SERVE_TOKEN" in page.code(language)
        if language == "python" or shutil.which("curl"):
            assert "bank" in page.run(language)
    page.check(n_failed=2)


def test_model_that_is_loaded_on_first_use_is_shown(opened_on):
    page = opened_on(lazy=True)
    page.settle()
    assert page.texts("#layer option") == ["average of all", "0 (no context)", "1", "2 (top)"]
    assert page.js("document.querySelector('#layer').value") == "2"
    assert page.text("#chosen") == "bank"
    page.check()
