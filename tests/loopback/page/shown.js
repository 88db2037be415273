// What a reader of the status page sees, as an object.
(() => {
  const all = (selector, of = document) => [...of.querySelectorAll(selector)];
  const value = (id) => Number(document.querySelector(`#tile-${id} .value`).dataset.value);
  const rows = (id) =>
    all(`#${id} tbody tr`).map((row) =>
      Object.fromEntries(
        all('td', row).map((cell) => [cell.dataset.label, cell.dataset.value ?? cell.textContent]),
      ),
    );
  const ASSET_FIELDS = ['Name', 'State', 'Plays', 'Sessions', 'Duration', 'Bit rate'];
  const meter = (name) =>
    all('#capacity .meter').find((meter) => meter.firstChild.textContent === name).children[1].textContent;
  // Whole numbers are told with separators of thousands only.
  const columns = ['Packets', 'Lost', 'Plays', 'Sessions'].map((label) => `[data-label=${label}]`);
  const counts = [...columns, '#tile-packets .value', '#lateness td.number'].join(', ');
  const isMistold = ({ dataset, textContent }) =>
    dataset.value && dataset.value !== textContent.replaceAll(',', '');
  return {
    mistold: all(counts)
      .filter(isMistold)
      .map((cell) => `${cell.dataset.value} as ${cell.textContent}`),
    clients: value('clients'),
    left: value('left'),
    packets: value('packets'),
    late: value('late'),
    lateness: all('#lateness tbody tr').map((row) => Number(row.children[1].dataset.value)),
    path: document.getElementById('path-name').textContent,
    rings: document.getElementById('path-rings').textContent,
    costs: all('#path tbody tr')
      .map((row) => row.firstChild.textContent)
      .sort(),
    sessions: rows('sessions'),
    // Rates over time are drawn, and what is sent now is computed by the page.
    assets: rows('assets')
      .map((row) => Object.fromEntries(ASSET_FIELDS.map((field) => [field, row[field]])))
      .sort((one, other) => (one.Name < other.Name ? -1 : 1)),
    files: rows('files'),
    warnings: all('#warnings li').map((item) => item.textContent),
    capacity: meter('Sessions'),
    threads: all('#threads .meter').length,
    elements: { script: all('script').length, img: all('img').length },
    foreign: performance
      .getEntriesByType('resource')
      .map((entry) => entry.name)
      .filter((name) => !name.startsWith(location.origin)),
  };
})();
