// The page: snapshots come as server-sent events, or by asking where those are refused.

/** Time between two snapshots that are asked for, where there are no events. */
const ASK_MS = 5000;

let isPaused = false;
makeTiles();
makeLateness();
makeFiles();
const tables = makeTables();
byId('pause').addEventListener('click', () => pause(!isPaused));
listen();

/** Stops or resumes showing new snapshots; they are still taken, so that rates go on. */
function pause(paused) {
  isPaused = paused;
  byId('pause').setAttribute('aria-pressed', String(paused));
  tell(paused ? 'paused' : 'live', paused ? 'paused' : 'live');
  if (!paused && model.status) show(model.status);
}

function tell(state, text) {
  if (isPaused && state === 'live') return;
  byId('live').dataset.state = state;
  setText(byId('live'), text);
}

function listen() {
  const events = new EventSource('api/events');
  events.onmessage = (event) => {
    arrive(JSON.parse(event.data));
    tell('live', 'live');
  };
  events.onerror = () => {
    if (events.readyState === EventSource.CLOSED) return ask();
    tell('lost', 'connection lost, connecting again');
  };
}

/** Asks for a snapshot, then tries to listen again. */
async function ask() {
  try {
    const answer = await fetch('api/status');
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    arrive(await answer.json());
    tell('live', `every ${ASK_MS / 1000} s: the server refuses more live listeners`);
  } catch {
    tell('lost', 'no connection, trying again');
  }
  setTimeout(listen, ASK_MS);
}

function arrive(status) {
  take(status);
  if (!isPaused) show(status);
}

function show(status) {
  showAbout(status);
  showTiles(status);
  showWarnings(status);
  showTables(tables, status);
  showLateness(status);
  showPath(status);
  showCapacity(status);
  showThreads(status);
  document.title = `Wirepath \u2013 ${count(TILES[0].number(status))} playing`;
  document.documentElement.dataset.uptimeMs = status.uptime_ms;
}
