// Tiles, warnings, lateness, data path, capacity and threads.

/** Sessions that may still be set up, and played at what those that play cost, or are estimated to. */
function stillFit({ capacity, rtsp, sessions }) {
  return Math.max(0, Math.min(rtsp.limits.sessions, capacity.sessions) - sessions.length);
}

/** Tiles: what they are called, the number they show, its text, a remark, and a list of last values. */
const TILES = [
  {
    id: 'clients',
    label: 'Clients playing',
    number: (status) => status.sessions.filter((session) => session.state === 'playing').length,
    text: count,
    remark: (status) => `${count(status.sessions.length)} of at most ${count(status.rtsp.limits.sessions)} sessions are set up`,
    values: () => model.history.clients,
  },
  {
    id: 'left',
    label: 'Clients that still fit',
    number: stillFit,
    text: count,
    remark: ({ capacity, rtsp }) => {
      if (rtsp.limits.sessions < capacity.sessions) {
        return `of ${count(rtsp.limits.sessions)}: the limit of sessions (open files, --max-sessions)`;
      }
      const basis = capacity.sessions_playing > 0 ? 'measured' : 'estimated';
      return `of ${count(capacity.sessions)}, by the ${basis} processor time of a client`;
    },
  },
  {
    id: 'rate',
    label: 'RTP payload sent',
    number: () => model.rates.bits,
    text: bitRate,
    remark: (status) => `${bytes(status.counters.playback.payload_bytes)} in all`,
    values: () => model.history.bits,
  },
  {
    id: 'processor',
    label: 'Processor',
    number: () => model.rates.cpu,
    text: percent,
    remark: (status) => `of one; ${short(status.counters.process.cpu_seconds)} s in all`,
    values: () => model.history.cpu,
  },
  {
    id: 'per-client',
    label: 'Processor per client',
    number: () => model.rates.perClient,
    text: (seconds) => (isKnown(seconds) ? `${short(seconds, 2)}\u00a0s/min` : UNKNOWN),
    remark: () => 'seconds for a minute of a client, HTTP included',
  },
  {
    id: 'late',
    label: 'Lateness, 99 %',
    number: (status) => status.lateness_us.p99,
    text: micros,
    remark: (status) => `median ${micros(status.lateness_us.p50)}, maximum ${micros(status.lateness_us.max)}`,
  },
  {
    id: 'packets',
    label: 'Packets sent',
    number: (status) => status.counters.playback.packets,
    text: count,
    remark: (status) => `${count(status.counters.playback.packets_lost)} rejected by the network`,
  },
  {
    id: 'http',
    label: 'HTTP responses now',
    number: (status) => status.counters.http.responses_sending,
    text: count,
    remark: (status) =>
      `${count(status.http.connections)} connections, ${bytes(status.counters.http.body_bytes)} in all`,
  },
];

function makeTiles() {
  for (const tile of TILES) {
    tile.value = element('div', { class: 'value' });
    tile.note = element('p', { class: 'note' });
    const parts = [element('h2', {}, tile.label), tile.value, tile.note];
    if (tile.values) {
      tile.plot = drawn('svg', { role: 'img', 'aria-label': `${tile.label}, the last minutes` });
      parts.push(tile.plot);
    }
    byId('tiles').append(element('div', { class: 'tile', id: `tile-${tile.id}` }, ...parts));
  }
}

function showTiles(status) {
  for (const tile of TILES) {
    const number = tile.number(status);
    setNumber(tile.value, number, tile.text(number));
    setText(tile.note, tile.remark(status));
    if (tile.plot) sparkline(tile.plot, tile.values());
  }
}

function showAbout(status) {
  setText(byId('about'), `${status.version}, up ${clock(status.uptime_s)}`);
}

/** The list is left alone while it is the same, or a screen reader would read it every second. */
function showWarnings(status) {
  const section = byId('warnings');
  const list = section.querySelector('ul');
  const texts = status.warnings.map((warning) => warning.text);
  const shown = [...list.children].map((item) => item.textContent);
  section.hidden = texts.length === 0;
  if (texts.join('\n') !== shown.join('\n'))
    list.replaceChildren(...texts.map((text) => element('li', {}, text)));
}

function makeLateness() {
  const plot = drawn('svg', { role: 'img', 'aria-label': 'Shares of trains by lateness' });
  const legend = element('p', { class: 'legend' });
  legend.append(
    element('span', {}, 'since the start'),
    element('span', { class: 'now' }, `last ${RECENT_S} s`),
  );
  const body = element('tbody');
  const names = ['late by at most', 'trains', 'share', `last ${RECENT_S} s`];
  const head = names.map((name, place) =>
    element('th', { scope: 'col', ...(place && { class: 'number' }) }, name),
  );
  const table = element('table', {}, element('thead', {}, element('tr', {}, ...head)), body);
  byId('lateness').append(plot, legend, element('details', {}, element('summary', {}, 'As a table'), table));
}

function showLateness(status) {
  const place = byId('lateness');
  const bounds = [...status.lateness_us.histogram.map((row) => row.at_most), null];
  const { all, recent, counts } = latenessShares();
  const labels = bounds.map((us) => micros(us ?? bounds.at(-2)).split('\u00a0'));
  labels.at(-1)[0] = `>${labels.at(-1)[0]}`;
  bars(place.querySelector('svg'), labels, [all, recent]);
  const body = place.querySelector('tbody');
  bounds.forEach((us, row) => {
    if (!body.children[row]) {
      const numbers = [1, 2, 3].map(() => element('td', { class: 'number' }));
      body.append(element('tr', {}, element('td'), ...numbers));
    }
    const cells = body.children[row].children;
    setText(cells[0], us === null ? 'more' : micros(us));
    setNumber(cells[1], counts[row], count(counts[row]));
    setText(cells[2], percent(all[row]));
    setText(cells[3], percent(recent[row]));
  });
}

/** Packets in the trains whose costs are shown: those by which paths are chosen. */
const USUAL_TRAIN = 8;

function showPath(status) {
  const { trains, trains_copied: copied, by_io_uring: rings, ...path } = status.data_path;
  const key = JSON.stringify(path);
  const place = byId('path');
  if (place.dataset.shown !== key) showChosen(path, place);
  place.dataset.shown = key;
  const sent = rings.map((ring) => `${count(ring.trains)} by ${ring.name}`).join(', ');
  const copies = copied > 0 ? `; the kernel copied ${count(copied)} of these` : '';
  byId('path-rings').textContent = sent && `Of ${count(trains)} trains, by io_uring: ${sent}${copies}.`;
}

function showChosen(path, place) {
  place.replaceChildren(
    element('p', {}, element('strong', { id: 'path-name' }, path.name), ` \u2013 ${path.reason}`),
    element('p', { id: 'path-rings' }),
    element(
      'p',
      { class: 'note' },
      `With headers of a session's own (after a seek, or without an image): ${path.own_headers.name}.`,
    ),
    ...path.calibrations.map((calibration) => costs(path, calibration)),
  );
}

/** What each path costs on a kind of device, the cheapest first. */
function costs(path, calibration) {
  const usual = calibration.costs.filter((cost) => cost.packets_per_train === USUAL_TRAIN);
  usual.sort((one, other) => one.cpu_ns_per_packet - other.cpu_ns_per_packet);
  const rows = usual.map((cost) => {
    const used = cost.path === (cost.own_headers ? path.own_headers.name : path.name);
    const name = cost.own_headers ? `${cost.path}, own headers` : cost.path;
    const ns = element('td', { class: 'number' }, `${short(cost.cpu_ns_per_packet)} ns`);
    const note = element('td', {}, used ? 'chosen' : '');
    return element('tr', used ? { class: 'used' } : {}, element('td', { class: 'long' }, name), ns, note);
  });
  const device =
    typeof calibration.device === 'string'
      ? calibration.device.replaceAll('_', ' ')
      : calibration.device.named;
  const where = `device ${device}, MTU ${calibration.mtu}; ${calibration.origin}`;
  const caption = `Processor time of a packet in trains of ${USUAL_TRAIN}; ${where}`;
  return element('table', {}, element('caption', {}, caption), element('tbody', {}, ...rows));
}

/** Limits: name, how much is used, how much there may be, text of an amount. */
const limits = (status) => [
  ['Sessions, by capacity', status.capacity.sessions_playing, status.capacity.sessions, count],
  ['Threads, by what sessions take', status.capacity.threads_used, status.capacity.threads, short],
  ['Bits per second, by sessions', status.capacity.bits_per_second, status.capacity.max_bits_per_second, bitRate],
  ['Sessions', status.sessions.length, status.rtsp.limits.sessions, count],
  ['RTSP connections', status.rtsp.connections, status.rtsp.limits.connections, count],
  ['HTTP connections', status.http.connections, status.http.limits.connections, count],
  ['File descriptors', status.counters.process.open_fds, status.counters.process.max_fds, count],
  ['Wire images', status.counters.images.cache_used_bytes, status.counters.images.cache_budget_bytes, bytes],
  ['Hot memory', status.hot_memory?.used_bytes, status.hot_memory?.budget_bytes, bytes],
];

/** Share of a limit from which its use is shown as near. */
const NEAR = 0.8;

function showCapacity(status) {
  const known = limits(status).filter(([, , most]) => isKnown(most) && most > 0);
  known.forEach(([name, used, most, text], place) => {
    showMeter(byId('capacity'), place, name, used / most, `${text(used)} of ${text(most)}`);
  });
}

function showThreads(status) {
  const place = byId('threads');
  const threads = [...status.threads].sort(
    (one, other) => compare(one.name, other.name, 1) || one.id - other.id,
  );
  threads.forEach((thread, row) => {
    const load = model.rates.threads.get(thread.id);
    showMeter(place, row, thread.name, load, `${percent(load)}, ${short(thread.cpu_seconds)} s in all`);
  });
  while (place.children.length > threads.length) place.lastChild.remove();
}

/** Shows a share as a bar with its text. */
function showMeter(place, row, name, share, text) {
  if (!place.children[row]) {
    const bar = element('div', { class: 'bar', 'aria-hidden': 'true' }, element('div'));
    place.append(
      element('div', { class: 'meter' }, element('span'), element('span', { class: 'value' }), bar),
    );
  }
  const meter = place.children[row];
  setText(meter.children[0], name);
  setText(meter.children[1], text);
  meter.classList.toggle('near', share >= NEAR);
  meter.children[2].firstChild.style.width = `${Math.min(100, 100 * (share || 0)).toFixed(1)}%`;
}
