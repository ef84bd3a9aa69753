// The page: reads the controls, sends one request at a time, and shows its answer.

const TYPING_MS = 350; // without a key until a text is sent
const byId = (id) => document.getElementById(id);
const checked = (name) => document.querySelector(`input[name="${name}"]:checked`).value;

class Playground {
  server = new Server();
  info = null;
  sentences = []; // text, words, words as they are shown, and offsets of each
  lineNumbers = []; // of the sentences
  word = null; // the chosen word, [sentence, position]
  answer = null; // that is shown, with its mode and word
  code = { curl: "", python: "" };

  constructor() {
    followTheme(byId("theme"), () => this.showAnswer());
    this.view = new WordsView(byId("words"), (word) => this.choose(word));
    byId("openapi").href = this.server.address("openapi.json");
    this.listen();
    const { examples } = readData();
    for (const example of examples) {
      byId("examples").append(make("button", { onclick: () => this.showExample(example) }, example.word));
    }
    this.showExample(examples[0]);
  }

  listen() {
    byId("text").addEventListener("input", () => {
      this.stop();
      this.typing = setTimeout(() => this.update(), TYPING_MS);
    });
    for (const input of document.querySelectorAll('input[name="mode"]')) {
      input.addEventListener("change", () => this.update());
    }
    for (const input of document.querySelectorAll('input[name="language"]')) {
      input.addEventListener("change", () => this.showCode());
    }
    byId("layer").addEventListener("change", () => this.update());
    byId("model").addEventListener("change", () => {
      this.showModel();
      this.update();
    });
    byId("direction").addEventListener("change", () => this.showAnswer());
    byId("retry").addEventListener("click", () => this.update());
    byId("access").addEventListener("submit", (event) => {
      event.preventDefault();
      this.server.token = byId("token").value.trim();
      this.update();
    });
    byId("copy").addEventListener("click", () => this.copyCode());
  }

  /** Show an example, in which the word that it is about is chosen. */
  showExample({ word, text }) {
    byId("text").value = text;
    this.wanted = word;
    this.update();
  }

  /** Bring the page up to date with its controls. A later call cancels this one. */
  async update() {
    this.stop();
    const { signal } = this.running = new AbortController();
    try {
      await this.readInfo(signal);
      await this.split(signal);
      await this.ask(signal);
      this.showProblem(null);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ServerError)) throw error;
      this.showProblem(error);
    } finally {
      if (!signal.aborted) this.setBusy(false);
    }
  }

  /** Cancel what is in progress; the page is then out of date until the next update. */
  stop() {
    clearTimeout(this.typing);
    this.typing = undefined;
    this.running?.abort();
    this.setBusy(true);
  }

  /** While the page is out of date, its results, and words of another text, cannot be clicked. */
  setBusy(isBusy) {
    document.querySelector("main").setAttribute("aria-busy", String(isBusy));
    byId("results").inert = isBusy;
    byId("words").inert = isBusy && this.splitKey !== this.keyOf(this.lines());
  }

  /** Read what the server has, also again after a model was loaded on first use. */
  async readInfo(signal) {
    if (this.info?.models[this.model]?.layers) return;
    this.info = await this.server.call("info", undefined, signal);
    byId("access").hidden = true;
    const { version, models, default_model: first } = this.info;
    byId("about").textContent = `elmo ${version}: vectors, probabilities and neighbors of words in their sentences`;
    if (!byId("model").options.length) {
      byId("model").append(...Object.keys(models).map((name) => make("option", { value: name }, name)));
      byId("model").value = first;
      byId("model-choice").hidden = Object.keys(models).length < 2;
    }
    this.showModel();
  }

  get model() {
    return byId("model").value;
  }

  get facts() {
    return this.info?.models[this.model] ?? {};
  }

  get mode() {
    return MODES[checked("mode")];
  }

  /** Offer the layers and modes that the model has. */
  showModel() {
    const { layers = 0, language, has_softmax: hasSoftmax, has_neighbors: hasNeighbors } = this.facts;
    const before = byId("layer").value;
    const single = Array.from({ length: layers }, (_, number) => [String(number),
      number === 0 ? "0 (no context)" : number === layers - 1 ? `${number} (top)` : String(number)]);
    const choices = layers ? [["average", "average of all"], ...single] : [];
    byId("layer").replaceChildren(...choices.map(([value, name]) => make("option", { value }, name)));
    const isThere = choices.some(([value]) => value === before);
    byId("layer").value = isThere ? before : choices.at(-1)?.[0];
    for (const input of document.querySelectorAll('input[name="mode"]')) {
      input.disabled = this.facts[MODES[input.value].needs] === false;
    }
    byId("no-softmax").hidden = hasSoftmax !== false;
    byId("no-softmax").textContent = "Surprisal and substitutes need the softmax of the language "
      + `model, which ${this.model} was saved without.`;
    byId("no-neighbors").hidden = hasNeighbors !== false;
    byId("no-neighbors").textContent = "Nearest senses come from English sentences, but the language "
      + `of ${this.model} is ${language}.`;
    if (document.querySelector('input[name="mode"]:checked').disabled) {
      document.querySelector('input[name="mode"][value="similarity"]').checked = true;
    }
  }

  /** Return the sentences of the text with their line numbers, without empty lines. */
  lines() {
    // Half of a character pair cannot be sent.
    const lines = byId("text").value.replace(/\p{Cs}/gu, "\ufffd").split("\n");
    return lines.map((text, number) => ({ text, line: number + 1 })).filter(({ text }) => text.trim());
  }

  /** Return fields of a request with the model, if there are several. */
  withModel(fields) {
    return Object.keys(this.info.models).length > 1 ? { ...fields, model: this.model } : fields;
  }

  /** Return what the words of lines depend on. */
  keyOf(lines) {
    return JSON.stringify([this.model, lines.map(({ text }) => text)]);
  }

  /** Split the text into words, unless they are known, and choose one of them. */
  async split(signal) {
    const lines = this.lines();
    const key = this.keyOf(lines);
    this.lineNumbers = lines.map(({ line }) => line);
    if (key === this.splitKey) return;
    let sentences = [];
    if (lines.length) {
      const fields = this.withModel({ sentences: lines.map(({ text }) => text) });
      ({ sentences } = await this.server.call("tokenize", fields, signal));
      await this.readInfo(signal);
    }
    this.splitKey = key;
    this.answer = null;
    this.sentences = sentences.map((sentence, number) => (
      { ...sentence, text: lines[number].text, shown: sentence.words.map(visibleWord) }));
    this.view.fill(this.sentences);
    this.word = this.firstChoice();
    if (this.word) this.view.select(this.word);
    byId("words").inert = false;
  }

  /** Return the word of an example, else the one at the place of the last choice, else the first. */
  firstChoice() {
    const words = this.sentences.map((sentence) => sentence.words);
    const first = (test) => {
      for (const [number, of] of words.entries()) {
        const position = of.findIndex(test);
        if (position >= 0) return [number, position];
      }
      return null;
    };
    const wanted = this.wanted && first((word) => word === this.wanted);
    this.wanted = undefined;
    if (wanted) return wanted;
    if (this.word) {
      const [sentence, position] = this.word;
      const of = words[sentence];
      if (of?.length) return [sentence, Math.min(position, of.length - 1)];
    }
    return first(() => true);
  }

  /** Send the request of the mode, unless its answer is shown already. */
  async ask(signal) {
    const { mode, word } = this;
    const name = checked("mode");
    byId("layer-choice").hidden = !mode.hasLayers;
    byId("direction-choice").hidden = name !== "surprisal";
    byId("hint").hidden = Boolean(word);
    if (!word) {
      this.code = { curl: "", python: "" };
      this.answer = null;
      this.showCode();
      return this.showAnswer();
    }
    const texts = this.sentences.map(({ text }) => text);
    const fields = this.withModel(mode.fields({ texts, word, layers: byId("layer").value }));
    this.showRequest(mode, fields);
    const key = JSON.stringify([mode.path, fields]);
    const data = this.answer?.key === key
      ? this.answer.data : await this.server.call(mode.path, fields, signal);
    this.answer = { key, mode: name, word, data };
    this.showAnswer();
  }

  choose(word) {
    this.word = word;
    this.view.select(word);
    this.update();
  }

  /** Put another text in the place of a word. */
  replaceWord([sentence, position], replacement) {
    const { text, offsets } = this.sentences[sentence];
    const characters = Array.from(text);
    const [start, end] = offsets[position];
    const lines = byId("text").value.split("\n");
    lines[this.lineNumbers[sentence] - 1] = characters.slice(0, start).join("") + replacement
      + characters.slice(end).join("");
    byId("text").value = lines.join("\n");
    this.update();
  }

  /** Show the answer, or that there is none. */
  showAnswer() {
    const { answer } = this;
    const mode = answer && MODES[answer.mode];
    const values = mode?.values?.(answer.data, byId("direction").value);
    this.view.paint(values, mode?.scale, mode?.format);
    this.showLegend(values && mode.scale);
    byId("details").hidden = !answer;
    byId("announcement").textContent = "";
    if (!answer) return;
    const { word } = answer;
    byId("chosen").textContent = this.sentences[word[0]].shown[word[1]];
    const { elements, summary } = RESULTS[answer.mode](answer.data, {
      sentences: this.sentences, word, values,
      choose: (other) => this.choose(other), replace: (other) => this.replaceWord(word, other),
    });
    byId("results").replaceChildren(...elements);
    byId("announcement").textContent = `${byId("chosen").textContent}. ${summary}.`;
  }

  showLegend(scale) {
    byId("legend").hidden = !scale;
    if (!scale) return;
    byId("legend-name").textContent = scale.name;
    byId("low").textContent = String(scale.low);
    byId("high").textContent = String(scale.high);
    const stops = [0, 0.25, 0.5, 0.75, 1].map((share) => {
      const value = scale.low + share * (scale.high - scale.low);
      return `rgb(${divergingRgb(value / scale.high).join(",")})`;
    });
    byId("scale").style.background = `linear-gradient(90deg, ${stops.join(",")})`;
  }

  /** Show an error of the server, or none. */
  showProblem(error) {
    byId("problem").hidden = !error;
    if (!error) return;
    if (error.status === 401) {
      byId("access").hidden = false;
      byId("token").focus();
      if (!this.server.token) {
        // The form says what is needed.
        byId("problem").hidden = true;
        byId("hint").hidden = true;
        return;
      }
    }
    // Places of the request, in the words of the page.
    const message = error.message.replace(/\bsentences\[(\d+)\]/g,
      (place, number) => (this.lineNumbers[number] ? `Line ${this.lineNumbers[number]}` : place));
    byId("problem-text").textContent = message;
    byId("retry").hidden = ![0, 408, 429, 500, 502, 503, 504].includes(error.status);
    byId("hint").hidden = true;
    this.answer = null;
    if (this.splitKey !== this.keyOf(this.lines())) {
      this.splitKey = undefined;
      this.sentences = [];
      this.word = null;
      this.view.fill([]);
      this.code = { curl: "", python: "" };
      this.showCode();
    }
    this.showAnswer();
  }

  showRequest(mode, fields) {
    const address = this.server.address(mode.path);
    const hasToken = Boolean(this.server.token);
    this.code = {
      curl: curlCommand(address, fields, hasToken),
      python: pythonProgram(address, fields, hasToken, mode.python),
    };
    this.showCode();
  }

  showCode() {
    byId("code").textContent = this.code[checked("language")];
    byId("request").hidden = !this.code.curl;
  }

  async copyCode() {
    let result = "Copied";
    try {
      await copyText(this.code[checked("language")]);
    } catch {
      result = "Not allowed";
    }
    byId("copy").textContent = result;
    setTimeout(() => { byId("copy").textContent = "Copy"; }, 1500);
  }
}

window.playground = new Playground();
