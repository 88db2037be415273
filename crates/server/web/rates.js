// Bit rates of assets over time. They are asked for once for each row that is shown, one after another, and again while
// an asset is still being indexed.

/** Time after which the rates of an asset that grows are asked for again. */
const GROWN_MS = 10000;

/** Most assets whose rates are kept. */
const KEPT_RATES = 500;

/** Rates of versions of assets: `rates`, null where they are not known, and `until`, when they are asked for again. */
const rates = new Map();

/** The last question, which the next one waits for. */
let asked = Promise.resolve();

/** Draws the rates of an asset, if they are known by now. */
function drawRates(svg, asset) {
  const version = JSON.stringify([asset.name, asset.state, asset.duration_s, asset.bits_per_second]);
  const known = rates.get(version);
  const isStale = !known || known.until < Date.now();
  if (isStale && (asset.state === 'ready' || asset.state === 'packing')) askForRates(version, asset.name);
  const points = known?.rates?.bits_per_second ?? [];
  const places = Math.max(2, points.length);
  sparkline(svg, points, places);
  if (points.length < 2) return svg.setAttribute('aria-label', 'Rate over time: not known');
  const [least, most] = [Math.min(...points), Math.max(...points)].map(bitRate);
  svg.setAttribute('aria-label', `Rate over time: ${least} to ${most}`);
}

function askForRates(version, name) {
  if (rates.size >= KEPT_RATES) rates.delete(rates.keys().next().value);
  rates.set(version, { rates: rates.get(version)?.rates ?? null, until: Infinity });
  asked = asked.then(() => fetchRates(version, name));
}

async function fetchRates(version, name) {
  const path = name.split('/').map(encodeURIComponent).join('/');
  let found = null;
  try {
    const answer = await fetch(`api/assets/${path}/rate`);
    if (answer.ok) found = await answer.json();
  } catch {
    // No connection: asked again later.
  }
  const until = found?.is_complete ? Infinity : Date.now() + GROWN_MS;
  rates.set(version, { rates: found ?? rates.get(version)?.rates ?? null, until });
}
