// What can be shown about words: the request of each mode, and the numbers of words in its answer.

const N_SUBSTITUTES = 10;
const N_NEIGHBORS = 8;
const MAX_BITS = 20; // of the color scale

/** Return the surprisal in bits of a natural log-probability. */
function bits(logProbability) {
  return -logProbability / Math.LN2;
}

/** Return the surprisal in bits of each word of a scored sentence. */
function surprisal({ forward, backward }, direction) {
  if (direction !== "both") return { forward, backward }[direction].map(bits);
  return forward.map((value, i) => (bits(value) + bits(backward[i])) / 2);
}

/*
 * Each mode has the path of its request, whether it has layers, and:
 *   needs    key of /info that is false for models without this mode
 *   fields   fields of the request for sentences, the chosen word [sentence, position] and layers
 *   values   number of each word by sentence, if words are colored
 *   scale    lowest and highest value of the color scale, and its name
 *   format   text of a value
 *   python   lines of Python that print the answer `data`
 */
const MODES = {
  similarity: {
    path: "similarity",
    hasLayers: true,
    fields: ({ texts, word, layers }) => ({ sentences: texts, word, layers }),
    values: (answer) => answer.sentences.map((sentence) => sentence.cosines),
    scale: { low: -1, high: 1, name: "Cosine" },
    format: (value) => value.toFixed(2),
    python: ['for sentence in data["sentences"]:',
      '    print(*zip(sentence["words"], sentence["cosines"]))'],
  },
  surprisal: {
    path: "score",
    needs: "has_softmax",
    fields: ({ texts }) => ({ sentences: texts }),
    values: (answer, direction) => answer.sentences.map((each) => surprisal(each, direction)),
    scale: { low: 0, high: MAX_BITS, name: "Surprisal in bits" },
    format: (value) => value.toFixed(1),
    python: ['for sentence in data["sentences"]:',
      '    print(*zip(sentence["words"], sentence["forward"], sentence["backward"]))'],
  },
  substitutes: {
    path: "substitutes",
    needs: "has_softmax",
    fields: ({ texts, word: [sentence, position] }) => (
      { sentence: texts[sentence], positions: [position], n: N_SUBSTITUTES }),
    python: ['for item in data["positions"][0]["substitutes"]:',
      '    print(item["word"], item["probability"])'],
  },
  neighbors: {
    path: "neighbors",
    needs: "has_neighbors",
    hasLayers: true,
    fields: ({ texts, word: [sentence, position], layers }) => (
      { sentence: texts[sentence], position, layers, n: N_NEIGHBORS }),
    python: ['for item in data["neighbors"]:',
      '    print(item["cosine"], item["word"], item["sense"], item["sentence"])'],
  },
};
