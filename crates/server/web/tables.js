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

/** Columns without a text show their value. */
for (const column of [...SESSION_COLUMNS, ...ASSET_COLUMNS]) {
  if (!column.draw) column.text ??= (row) => column.value(row) ?? UNKNOWN;
}

/** Sessions of each asset in the snapshot that is shown. */
let sessionsOf = new Map();

function makeTables() {
  const place = (id) => byId(id).querySelector('.table');
  return {
    sessions: new Table(place('sessions'), {
      name: 'sessions',
      noun: ['session', 'sessions'],
      columns: SESSION_COLUMNS,
      key: (session) => session.id,
      sort: { by: 'Client', down: false },
    }),
    assets: new Table(place('assets'), {
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
  tables.sessions.show(status.sessions);
  tables.assets.show(status.assets);
}
