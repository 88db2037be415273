// The files that are served, from the listing for programs, and a player for those that a browser plays.

/** What browsers play, by the end of the name. */
const PLAYED = /\.(mp4|m4v|webm|mov|mp3|m4a|ogg|ogv|oga|opus|wav|flac)$/i;

/** The served folder, and the folder that is shown. */
const ROOT = new URL('./', document.baseURI);
let folder = ROOT;

/** A link below the served folder; nothing else that a name might be read as. */
function below(base, path) {
  const url = new URL(path, base);
  return url.origin === ROOT.origin && url.pathname.startsWith(ROOT.pathname) ? url : null;
}

const FILE_COLUMNS = [
  { label: 'Name', long: true, value: (entry) => entry.name, text: (entry) => entry.name, fill: fillName },
  {
    label: 'Size',
    number: true,
    value: (entry) => (entry.kind === 'file' ? entry.size_bytes : null),
    text: (entry) => (entry.kind === 'file' ? bytes(entry.size_bytes) : ''),
  },
  {
    label: 'Modified',
    value: (entry) => entry.modified_s,
    text: (entry) => new Date(entry.modified_s * 1000).toISOString().slice(0, 16).replace('T', ' '),
  },
  { label: 'Play', value: (entry) => playable(entry), text: () => '', fill: fillPlay },
];

const playsHere = (entry) => entry.kind === 'file' && PLAYED.test(entry.name);

const playable = (entry) => (playsHere(entry) ? 'here' : entry.rtsp ? 'rtsp' : '');

function fillName(cell, entry) {
  const url = below(folder, entry.url);
  const name = element('bdi', {}, entry.name);
  if (!url) {
    cell.append(name);
  } else if (entry.kind === 'folder') {
    const button = element('button', { type: 'button' }, name, '/');
    button.addEventListener('click', () => openFolder(url));
    cell.append(button);
  } else {
    cell.append(element('a', { href: url.href }, name));
  }
}

function fillPlay(cell, entry) {
  const url = below(folder, entry.url);
  if (entry.rtsp && entry.rtsp.startsWith('rtsp://')) {
    cell.append(element('a', { href: entry.rtsp }, 'rtsp'));
  }
  if (playsHere(entry) && url) {
    const button = element('button', { type: 'button', 'aria-label': `Play ${entry.name}` }, 'Play');
    button.addEventListener('click', () => playFile(url, entry.name));
    cell.append(' ', button);
  }
}

function makeFiles() {
  files = new Table(byId('files').querySelector('.table'), {
    name: 'files',
    noun: ['entry', 'entries'],
    columns: FILE_COLUMNS,
    key: (entry) => `${folder.href} ${entry.url}`,
    sort: { by: 'Name', down: false },
  });
  byId('player').querySelector('button').addEventListener('click', stopFile);
  openFolder(ROOT);
}

let files;

async function openFolder(url) {
  const note = byId('folder');
  try {
    const answer = await fetch(url, { headers: { Accept: 'application/json' } });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const listing = await answer.json();
    folder = url;
    note.replaceChildren(
      ...crumbs(),
      listing.truncated ? ' \u2013 there is more in this folder than is listed' : '',
    );
    files.show(listing.entries);
  } catch (error) {
    setText(note, `The folder cannot be listed: ${error.message}; reload the page to try again.`);
  }
}

/** Buttons to the folders above, and the name of this one. */
function crumbs() {
  const names = folder.pathname
    .slice(ROOT.pathname.length)
    .split('/')
    .filter((name) => name);
  const path = (depth) =>
    names
      .slice(0, depth)
      .map((name) => `${name}/`)
      .join('');
  return ['', ...names].flatMap((name, depth) => {
    const shown = element('bdi', {}, depth === 0 ? 'served folder' : decode(name));
    if (depth === names.length) return [shown];
    const button = element('button', { type: 'button' }, shown);
    button.addEventListener('click', () => openFolder(new URL(path(depth), ROOT)));
    return [button, ' / '];
  });
}

/** The name in a URL; one that is not UTF-8 stays encoded. */
function decode(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function playFile(url, name) {
  const player = byId('player');
  const video = player.querySelector('video');
  player.hidden = false;
  setText(player.querySelector('bdi'), name);
  video.src = url.href;
  video
    .play()
    .catch((error) => setText(player.querySelector('bdi'), `${name} cannot be played: ${error.message}`));
  video.focus();
}

function stopFile() {
  const video = byId('player').querySelector('video');
  video.removeAttribute('src');
  video.load();
  byId('player').hidden = true;
  byId('files').focus();
}
