// What is said about the chosen word. Texts become text nodes, never HTML.

const N_RANKED = 10;

/** Return a button with a name and its place, a bar of a share from 0 to 1, and a number. */
function rankedButton(name, share, number, title, onclick, place = "") {
  const bar = make("span", { class: "bar" });
  bar.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
  return make("button", { class: "ranked", title, onclick },
    make("span", { class: "name" }, make("bdi", {}, name), make("span", { class: "place" }, place)),
    make("span", { class: "track", "aria-hidden": "true" }, bar),
    make("span", { class: "number" }, number));
}

function listOf(items) {
  return make("ol", {}, ...items.map((item) => make("li", {}, item)));
}

/** Return the [sentence, position] of the words with the highest values, without one of them. */
function highest(values, without) {
  const words = values.flatMap((row, sentence) => row.map((_, position) => [sentence, position]));
  return words
    .filter(([sentence, position]) => sentence !== without?.[0] || position !== without[1])
    .sort((a, b) => values[b[0]][b[1]] - values[a[0]][a[1]])
    .slice(0, N_RANKED);
}

/** Return the number and mean of the sentences with the highest means. */
function meansOf(values) {
  const mean = (row) => row.reduce((sum, value) => sum + value, 0) / row.length;
  return values.flatMap((row, number) => (row.length ? [[number, mean(row)]] : []))
    .sort((a, b) => b[1] - a[1]).slice(0, N_RANKED);
}

function formatProbability(probability) {
  const percent = 100 * probability;
  if (percent < 0.0001) return "< 0.0001 %";
  return `${percent >= 10 ? percent.toFixed(0) : percent.toPrecision(2)} %`;
}

/*
 * Each function returns the elements to show and a sentence for screen readers, from the answer of
 * a mode and: the sentences, the chosen word, the values of the words, and what buttons do.
 */
const RESULTS = {
  similarity(answer, { sentences, word, values, choose }) {
    const ranked = highest(values, word);
    const name = ([sentence, position]) => sentences[sentence].shown[position];
    const number = ([sentence, position]) => values[sentence][position];
    return {
      elements: [make("h3", {}, "Most similar words"), listOf(ranked.map((each) => rankedButton(
        name(each), number(each), number(each).toFixed(2), "Choose",
        () => choose(each), each[0] === word[0] ? "" : `sentence ${each[0] + 1}`)))],
      summary: `Most similar: ${ranked.slice(0, 3)
        .map((each) => `${name(each)} ${number(each).toFixed(2)}`).join(", ")}`,
    };
  },

  surprisal(answer, { sentences, word: [sentence, position], values, choose }) {
    const scores = answer.sentences[sentence];
    const row = (name, value) => [make("dt", {}, name), make("dd", {},
      `${bits(value).toFixed(1)} bits, probability ${formatProbability(Math.exp(value))}`)];
    const ranked = highest(values);
    const elements = [make("dl", {}, ...row("Forward", scores.forward[position]),
      ...row("Backward", scores.backward[position]))];
    if (!scores.is_known[position]) {
      elements.push(make("p", { class: "quiet" }, "This word is not in the vocabulary of the "
        + "model. The numbers are those of all unknown words together."));
    }
    elements.push(make("h3", {}, "Most surprising words"), listOf(ranked.map((each) => {
      const value = values[each[0]][each[1]];
      return rankedButton(sentences[each[0]].shown[each[1]], value / MAX_BITS, value.toFixed(1),
        "Choose", () => choose(each), each[0] === sentence ? "" : `sentence ${each[0] + 1}`);
    })), make("h3", {}, "Most surprising sentences, mean of their words"),
    listOf(meansOf(values).map(([number, mean]) => rankedButton(`Sentence ${number + 1}`,
      mean / MAX_BITS, mean.toFixed(1), "Choose its first word", () => choose([number, 0])))));
    return { elements, summary: `Surprisal ${values[sentence][position].toFixed(1)} bits` };
  },

  substitutes(answer, { replace }) {
    const found = answer.positions[0].substitutes;
    return {
      elements: [make("h3", {}, "Likely words at this place"),
        listOf(found.map(({ word, probability }) => rankedButton(word, probability,
          formatProbability(probability), "Put it into the sentence", () => replace(word)))),
        make("p", { class: "quiet" }, "Click a word to put it into the sentence.")],
      summary: `Likely: ${found.slice(0, 3).map(({ word }) => word).join(", ")}`,
    };
  },

  neighbors(answer) {
    const found = answer.neighbors;
    return {
      elements: [make("h3", {}, "Most similar words of the example sentences"),
        listOf(found.map(({ sentence, start, end, sense, cosine }) => {
          const characters = Array.from(sentence);
          const part = (first, last) => characters.slice(first, last).join("");
          return make("div", { class: "neighbor" }, make("div", { class: "facts" },
            make("span", {}, cosine.toFixed(2)), ...(sense ? [make("span", { class: "sense" }, sense)] : [])),
          part(0, start), make("b", {}, part(start, end)), part(end));
        })),
        make("p", { class: "quiet" }, "The 300 sentences are English. Ten words in them have two "
          + "senses, which are named.")],
      summary: `Nearest: ${found.slice(0, 3)
        .map(({ word, sense }) => (sense ? `${word} (${sense})` : word)).join(", ")}`,
    };
  },
};
