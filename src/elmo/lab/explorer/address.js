// The shown unit in the fragment of the address, so that a view can be linked and copied.

let addressTimer;

/** Show what the fragment of the address names, as in `page.html#layer=1&values=cell&unit=37`. */
function followAddress(explorer) {
  explorer.showNote();
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (![...wanted.keys()].length) return;
  const pane = explorer.panes[0];
  const source = explorer.sources[Number(wanted.get("model") ?? 0)] ?? explorer.sources[0];
  if (source !== pane.source) pane.setSource(source);
  const track = source.find(Number(wanted.get("layer") ?? pane.track.layer),
    wanted.get("direction") ?? pane.track.direction, wanted.get("values") ?? pane.track.kind);
  if (track && track !== pane.track) pane.setTrack(track);
  const index = pane.track.units.indexOf(Number(wanted.get("unit") ?? -1));
  if (index >= 0) explorer.showUnit(pane, index);
  else if (wanted.has("unit")) {
    explorer.showNote(missingUnit(pane.track, wanted.get("unit")));
  }
  const place = source.index(Number(wanted.get("position") ?? -1));
  if (place >= 0) {
    pane.view.scrollTo(place, true);
    explorer.setCursor(pane, place);
  }
}

/** Return why a unit of a track cannot be shown. */
function missingUnit(track, name) {
  const last = track.record.n_units - 1;
  const number = name.trim() ? Number(name) : NaN;
  return Number.isInteger(number) && number >= 0 && number <= last
    ? `Unit ${number} is not stored in this page: use --units or --all-units.`
    : `There is no unit ${name} (${track.name}). Units are numbers from 0 to ${last}.`;
}

/** Keep the shown unit in the address, so that it can be copied. */
function writeAddress(explorer) {
  explorer.showNote();
  const { source, track, index } = explorer.panes[0];
  const parts = { layer: track.layer, direction: track.direction, values: track.kind,
    unit: track.units[index] };
  if (explorer.sources.length > 1) parts.model = explorer.sources.indexOf(source);
  const before = location.hash;
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => {
    // An address that was entered meanwhile stays. Frames in notebooks have none.
    if (location.hash === before && location.protocol !== "about:") {
      history.replaceState(null, "", `#${new URLSearchParams(parts)}`);
    }
  }, 300);
}
