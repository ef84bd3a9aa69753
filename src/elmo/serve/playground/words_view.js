// The words of all sentences, colored by a number each. One of them is chosen.

/** Return a word as it is shown; the code points of one that cannot be seen. */
function visibleWord(word) {
  if (!/^[\p{Cc}\p{Cf}\p{Z}]+$/u.test(word)) return word;
  const code = (character) => character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return Array.from(word, (character) => `U+${code(character)}`).join(" ");
}

class WordsView {
  /** Show words in an element; `choose` is called with [sentence, position]. */
  constructor(element, choose) {
    this.element = element;
    this.choose = choose;
    this.options = []; // by sentence and position
    element.addEventListener("click", (event) => {
      const option = event.target.closest(".word");
      if (option) choose(option.dataset.word.split(",").map(Number));
    });
    element.addEventListener("keydown", (event) => this.press(event));
  }

  /** Show sentences, each with its text, words as they are shown, and offsets in code points. */
  fill(sentences) {
    this.word = undefined;
    this.element.removeAttribute("aria-activedescendant");
    this.options = [];
    this.element.replaceChildren(...sentences.map(({ text, shown, offsets }, number) => {
      const characters = Array.from(text);
      const line = make("div", {
        class: "sentence", dir: "auto", role: "group", "aria-label": `Sentence ${number + 1}`,
      });
      let end = 0;
      this.options.push(shown.map((word, position) => {
        const gap = characters.slice(end, offsets[position][0]).join("");
        if (gap) line.append(gap);
        end = offsets[position][1];
        const option = make("span", {
          class: "word", role: "option", id: `word-${number}-${position}`,
          "data-word": `${number},${position}`, "aria-selected": "false", "aria-label": word,
        }, make("span", {}, word), make("span", { class: "value" }));
        line.append(option);
        return option;
      }));
      return line;
    }));
  }

  /** Mark the chosen word and make it visible. */
  select(word) {
    if (this.word) this.option(this.word).setAttribute("aria-selected", "false");
    this.word = word;
    const option = this.option(word);
    option.setAttribute("aria-selected", "true");
    this.element.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  }

  option([sentence, position]) {
    return this.options[sentence]?.[position];
  }

  /**
   * Color words by their numbers, by sentence and position; null removes colors and numbers.
   * `scale` has the values of the palest and darkest color.
   */
  paint(values, scale, format) {
    this.options.forEach((options, sentence) => options.forEach((option, position) => {
      const value = values?.[sentence][position];
      const text = value === undefined ? "" : format(value);
      option.style.background = value === undefined ? ""
        : `rgb(${divergingRgb(value / scale.high).join(",")})`;
      option.lastChild.textContent = text;
      const word = option.firstChild.textContent;
      option.setAttribute("aria-label", text ? `${word}, ${text}` : word);
    }));
  }

  /** Choose another word with the keyboard. */
  press(event) {
    if (!this.word || event.ctrlKey || event.metaKey || event.altKey) return;
    const word = this.moved(event.key);
    if (word === null) return;
    event.preventDefault();
    if (word) this.choose(word);
  }

  /** Return the word that a key leads to; undefined if there is none, null for other keys. */
  moved(key) {
    const [sentence, position] = this.word;
    const line = this.options[sentence];
    // In a line from right to left, the next word is on the left.
    const isReversed = getComputedStyle(line[position].parentNode).direction === "rtl";
    const filled = [...this.options.keys()].filter((each) => this.options[each].length);
    const row = filled.indexOf(sentence);
    const step = { ArrowRight: isReversed ? -1 : 1, ArrowLeft: isReversed ? 1 : -1 }[key];
    if (step && position + step in line) return [sentence, position + step];
    const rows = { ArrowUp: row - 1, ArrowDown: row + 1 };
    if (key in rows || step) {
      const other = filled[step ? row + step : rows[key]];
      if (other === undefined) return undefined;
      if (step) return [other, step > 0 ? 0 : this.options[other].length - 1];
      return [other, this.nearestPosition(other, line[position])];
    }
    return { Home: [sentence, 0], End: [sentence, line.length - 1] }[key] ?? null;
  }

  /** Return the position in a sentence that is nearest to a word of another one on the screen. */
  nearestPosition(sentence, option) {
    const center = (each) => each.getBoundingClientRect().left + each.offsetWidth / 2;
    const target = center(option);
    const distances = this.options[sentence].map((each) => Math.abs(center(each) - target));
    return distances.indexOf(Math.min(...distances));
  }
}
