// Units that are on in a selected part of the text and off elsewhere, and other parts where the
// same units are on.

const N_MATCHED_UNITS = 5; // units that other parts must share
const N_LISTED_UNITS = 12;
const N_LISTED_PARTS = 12;

/** Rank the units of tracks by the difference between the selection and the rest of the text.
 *
 * The score is the difference of the means, in standard deviations. A unit can also be low in the
 * selection: its score is then negative.
 */
function unitsOfSelection(tracks, first, end) {
  const ranked = [];
  for (const track of tracks) {
    const n = track.source.length;
    for (let index = 0; index < track.units.length; index++) {
      if (!(track.spread[index] > 1e-6) || end - first >= n) continue;
      let sum = 0;
      for (let i = first; i < end; i++) sum += track.value(index, i);
      const inside = sum / (end - first);
      const outside = (n * track.mean[index] - sum) / (n - (end - first));
      const score = (inside - outside) / track.spread[index];
      ranked.push({ track, index, inside, outside, score });
    }
  }
  return ranked.sort((a, b) => Math.abs(b.score) - Math.abs(a.score));
}

/** Return the other parts of the text where the best units are on, the most similar first.
 *
 * A unit is on at a position if its value is on the side of the selection, seen from the middle of
 * its two means. All units must be on; of three or more, one can be off. Gaps of a fifth of the
 * selection, at most 3 positions, are allowed.
 */
function similarParts(ranked, first, end) {
  const units = ranked.slice(0, N_MATCHED_UNITS);
  if (!units.length) return [];
  const n = units[0].track.source.length;
  const on = new Uint8Array(n);
  for (const { track, index, inside, outside } of units) {
    const row = track.row(index);
    const threshold = (inside + outside) / 2 / (track.scale[index] / 127);
    const sign = Math.sign(inside - outside);
    for (let i = 0; i < n; i++) if (sign * (row[i] - threshold) > 0) on[i]++;
  }
  const length = end - first;
  const gap = Math.min(3, Math.floor(length / 5));
  const needed = units.length >= 3 ? units.length - 1 : units.length;
  const parts = [];
  for (let i = 0; i < n; i++) {
    if (on[i] < needed) continue;
    let [j, sum] = [i, 0];
    // Short gaps do not end a part; the end of what was read does.
    const [, , stop] = units[0].track.source.part(i);
    for (let k = i; k < stop && k - j <= gap; k++) {
      if (on[k] >= needed) j = k + 1;
    }
    for (let k = i; k < j; k++) sum += on[k];
    if (j <= first || i >= end) parts.push({ first: i, end: j, share: sum / (j - i) / units.length });
    i = j;
  }
  const similarity = (part) => {
    const own = part.end - part.first;
    return part.share * Math.min(own, length) / Math.max(own, length);
  };
  return parts.sort((a, b) => similarity(b) - similarity(a) || a.first - b.first);
}

/** Return positions with the highest (sign 1) or lowest (sign -1) values, apart from each other. */
function extremePositions(row, sign, count, distance) {
  const result = [];
  const order = Array.from(row.keys()).sort((a, b) => sign * (row[b] - row[a]) || a - b);
  for (const position of order) {
    if (result.every((other) => Math.abs(other - position) > distance)) result.push(position);
    if (result.length === count) break;
  }
  return result;
}
