// Tables of sessions and assets.

const report = (session) => session.receiver_report ?? {};

const SESSION_COLUMNS = [
  { label: 'Client', value: (session) => session.client },
  { label: 'Asset', long: true, value: (session) => session.asset },
  { label: 'State', value: (session) => session.state },
  {
    label: 'Position',
    number: true,
    value: (session) => session.position_s,
    text: (session) => clock(session.position_s),
  },
  {
    label: 'Rate',
    number: true,
    value: (session) => model.rates.sessions.get(session.id) ?? null,
    text: (session) => bitRate(model.rates.sessions.get(session.id)),
  },
  {
    label: 'Packets',
    number: true,
    value: (session) => session.packets,
    text: (session) => count(session.packets),
  },
  {
    label: 'Lost',
    number: true,
    value: (session) => report(session).packets_lost ?? null,
    text: (session) => count(report(session).packets_lost),
  },
  {
    label: 'Loss now',
    number: true,
    value: (session) => report(session).fraction_lost ?? null,
    text: (session) => percent(report(session).fraction_lost),
  },
  {
    label: 'Jitter',
    number: true,
    value: (session) => report(session).jitter_ms ?? null,
    text: (session) => milliseconds(report(session).jitter_ms),
  },
  {
    label: 'Round trip',
    number: true,
    value: (session) => report(session).round_trip_ms ?? null,
    text: (session) => milliseconds(report(session).round_trip_ms),
  },
  {
    label: 'Burst',
    number: true,
    value: (session) => session.burst_ms,
    text: (session) => milliseconds(session.burst_ms),
  },
  {
    label: 'Skips',
    number: true,
    value: (session) => session.forward_skips,
    text: (session) => count(session.forward_skips),
  },
  { label: 'Transport', value: (session) => session.transport },
  { label: 'Data path', value: (session) => session.data_path },
  { label: 'Player', long: true, value: (session) => session.agent },
];

const ASSET_COLUMNS = [
  { label: 'Name', long: true, value: (asset) => asset.name },
  {
    label: 'State',
    long: true,
    value: (asset) => asset.state,
    text: (asset) => [asset.state, asset.reason].filter(Boolean).join(': '),
  },
  { label: 'Plays', number: true, value: (asset) => asset.plays, text: (asset) => count(asset.plays) },
  {
    label: 'Sessions',
    number: true,
    value: (asset) => sessionsOf.get(asset.name) ?? 0,
    text: (asset) => count(sessionsOf.get(asset.name) ?? 0),
  },
  {
    label: 'Duration',
    number: true,
    value: (asset) => asset.duration_s,
    text: (asset) => clock(asset.duration_s),
  },
  {
    label: 'Bit rate',
    number: true,
    value: (asset) => asset.bits_per_second,
    text: (asset) => bitRate(asset.bits_per_second),
  },
  {
    label: 'Rate over time',
    value: (asset) => asset.bits_per_second,
    draw: (svg, asset) => drawRates(svg, asset),
  },
  {
    label: 'Sent now',
    number: true,
    value: (asset) => model.rates.assets.get(asset.name) ?? null,
    text: (asset) => bitRate(model.rates.assets.get(asset.name)),
  },
  {
    label: 'Sent, last minutes',
    value: (asset) => model.rates.assets.get(asset.name) ?? null,
    draw: (svg, asset) => sparkline(svg, model.assetHistory.get(asset.name) ?? []),
  },
];

/** A column for administrators. */
const END_COLUMN = { label: 'End', action: true, value: () => null, text: () => '', fill: fillEnd };

/** A button that ends a session when it is pressed twice. */
function fillEnd(cell, session) {
  const button = element('button', { type: 'button' });
  const name = `${session.client}, ${session.asset}`;
  const label = (text, spoken) => {
    setText(button, text);
    button.setAttribute('aria-label', `${spoken} ${name}`);
  };
  const rest = () => {
    if (!button.hasAttribute('aria-disabled')) label('End', 'End session');
    delete button.dataset.armed;
  };
  button.addEventListener('blur', rest);
  button.addEventListener('click', async () => {
    if (button.hasAttribute('aria-disabled')) return;
    if (!('armed' in button.dataset)) {
      button.dataset.armed = '';
      return label('Really?', 'Really end session');
    }
    delete button.dataset.armed;
    button.setAttribute('aria-disabled', 'true');
    label('Ending', 'Ending session');
    const failure = await endSession(session.id);
    setText(byId('ended'), failure ? `${name} goes on: ${failure}` : `Session ended: ${name}`);
    if (!failure) return; // its row goes
    button.removeAttribute('aria-disabled');
    rest();
  });
  rest();
  cell.append(button);
}

/** Has the server end a session; returns why it does not. */
async function endSession(id) {
  try {
    const answer = await fetch(`api/sessions/${id}`, { method: 'DELETE' });
    return answer.ok || answer.status === 404 ? null : (await answer.text()).trim();
  } catch {
    return 'no connection';
  }
}

/** Columns without a text show their value. */
for (const column of [...SESSION_COLUMNS, ...ASSET_COLUMNS]) {
  if (!column.draw) column.text ??= (row) => column.value(row) ?? UNKNOWN;
}

/** Sessions of each asset in the snapshot that is shown. */
let sessionsOf = new Map();

const placeOfTable = (id) => byId(id).querySelector('.table');

/** The table of sessions, with a button for each if they can be ended. */
function makeSessions(canEnd) {
  const place = placeOfTable('sessions');
  place.replaceChildren();
  return new Table(place, {
    name: 'sessions',
    noun: ['session', 'sessions'],
    columns: canEnd ? [...SESSION_COLUMNS, END_COLUMN] : SESSION_COLUMNS,
    key: (session) => session.id,
    sort: { by: 'Client', down: false },
  });
}

function makeTables() {
  return {
    canEnd: false,
    sessions: makeSessions(false),
    assets: new Table(placeOfTable('assets'), {
      name: 'assets',
      noun: ['asset', 'assets'],
      columns: ASSET_COLUMNS,
      // The same asset has an image for each size of packets.
      key: (asset) => `${asset.packet_bytes} ${asset.name}`,
      sort: { by: 'Plays', down: true },
    }),
  };
}

function showTables(tables, status) {
  sessionsOf = new Map();
  for (const { asset } of status.sessions) sessionsOf.set(asset, (sessionsOf.get(asset) ?? 0) + 1);
  if (tables.canEnd !== Boolean(status.ends_sessions)) {
    tables.canEnd = Boolean(status.ends_sessions);
    tables.sessions = makeSessions(tables.canEnd);
  }
  tables.sessions.show(status.sessions);
  tables.assets.show(status.assets);
}
