// The last snapshots of the status, and what follows from two of them.

/** Snapshots that sparklines show. */
const HISTORY = 120;

/** Seconds that the recent histogram covers. */
const RECENT_S = 30;

/** Snapshots over which the load of a thread is the mean: its time is known in steps of 10 ms. */
const LOAD_SNAPSHOTS = 5;

const model = {
  status: null,
  /** Rates between the last two snapshots; empty before there are two. */
  rates: { sessions: new Map(), assets: new Map(), threads: new Map() },
  history: { clients: [], bits: [], cpu: [] },
  assetHistory: new Map(),
  /** The last snapshots of threads: `[uptime in seconds, threads]`. */
  threads: [],
  /** Snapshots of the lateness histogram: `[uptime in seconds, counts]`. */
  lateness: [],
};

/** Takes a snapshot. */
function take(status) {
  const before = model.status;
  const elapsed = before ? (status.uptime_ms - before.uptime_ms) / 1000 : 0;
  model.status = status;
  if (before && elapsed < 0) forget(); // the server was started again
  if (elapsed > 0) note(before, status, elapsed);
  noteLateness(status);
  noteThreads(status);
}

function forget() {
  model.history = { clients: [], bits: [], cpu: [] };
  model.assetHistory.clear();
  model.lateness = [];
  model.threads = [];
  model.rates = { sessions: new Map(), assets: new Map(), threads: new Map() };
}

function note(before, status, elapsed) {
  const rate = (read) => (read(status) - read(before)) / elapsed;
  const playing = status.sessions.filter((session) => session.state === 'playing').length;
  const bits = rate((of) => of.counters.playback.payload_bytes) * 8;
  const cpu = rate((of) => of.counters.process.cpu_seconds);
  model.rates = {
    bits,
    cpu,
    perClient: playing > 0 ? (60 * cpu) / playing : null,
    sessions: ratesByKey(before.sessions, status.sessions, 'payload_bytes', 8 / elapsed),
    threads: model.rates.threads,
    assets: new Map(),
  };
  for (const session of status.sessions) {
    const sum = model.rates.assets.get(session.asset) ?? 0;
    model.rates.assets.set(session.asset, sum + (model.rates.sessions.get(session.id) ?? 0));
  }
  push(model.history.clients, playing);
  push(model.history.bits, bits);
  push(model.history.cpu, cpu);
  noteAssets(status);
}

/** How fast a field of each object grew, by the object's id. */
function ratesByKey(before, after, field, factor) {
  const old = new Map(before.map((item) => [item.id, item[field]]));
  const known = after.filter((item) => old.has(item.id));
  return new Map(known.map((item) => [item.id, (item[field] - old.get(item.id)) * factor]));
}

function noteAssets(status) {
  const names = new Set(status.assets.map((asset) => asset.name));
  for (const name of model.assetHistory.keys()) if (!names.has(name)) model.assetHistory.delete(name);
  for (const name of names) {
    if (!model.assetHistory.has(name)) model.assetHistory.set(name, []);
    push(model.assetHistory.get(name), model.rates.assets.get(name) ?? 0);
  }
}

function noteThreads(status) {
  model.threads.push([status.uptime_ms / 1000, status.threads]);
  if (model.threads.length > LOAD_SNAPSHOTS + 1) model.threads.shift();
  const [[begin, first], [end, last]] = [model.threads[0], model.threads.at(-1)];
  if (end > begin) model.rates.threads = ratesByKey(first, last, 'cpu_seconds', 1 / (end - begin));
}

function push(values, value) {
  values.push(value);
  if (values.length > HISTORY) values.shift();
}

function noteLateness(status) {
  model.lateness.push([status.uptime_ms / 1000, latenessCounts(status.lateness_us)]);
  const since = status.uptime_ms / 1000 - RECENT_S;
  while (model.lateness.length > 2 && model.lateness[1][0] < since) model.lateness.shift();
}

/** Trains in each class of lateness; the last class has no upper bound. */
function latenessCounts(lateness) {
  const upTo = [...lateness.histogram.map((row) => row.trains), lateness.trains];
  return upTo.map((trains, place) => Math.max(0, trains - (upTo[place - 1] ?? 0)));
}

/** Shares of classes of lateness: of all trains, and of recent ones. */
function latenessShares() {
  const [, now] = model.lateness.at(-1);
  const [, then] = model.lateness[0];
  const shares = (counts) => {
    const sum = counts.reduce((total, trains) => total + trains, 0);
    return counts.map((trains) => (sum > 0 ? trains / sum : 0));
  };
  return { all: shares(now), recent: shares(now.map((trains, place) => trains - then[place])), counts: now };
}
