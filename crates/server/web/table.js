// Tables that sort and filter. Rows stay the same elements from snapshot to snapshot, so that a selection or
// the focus in them stays.

/** Rows shown at first. */
const ROWS = 25;

/** Rows added when more are wanted. */
const MORE_ROWS = 100;

/**
 * A table. Each column has a `label`, `value` of a row to sort by, `text` of a row to show, and may be a
 * `number` or `long` text; a column with `fill` puts elements into its cell when the row is made, one with
 * `draw` each time; by one that has an `action` nothing is sorted.
 */
class Table {
  constructor(place, { name, columns, key, sort, noun }) {
    Object.assign(this, { columns, key, noun, rows: [], limit: ROWS, elements: new Map() });
    this.sort = { column: columns.findIndex((column) => column.label === sort.by), down: sort.down };
    this.empty = place.dataset.empty;
    this.filter = element('input', { type: 'search', 'aria-label': `Filter ${name}`, placeholder: 'Filter' });
    this.order = element('select', { 'aria-label': `Sort ${name} by` });
    this.count = element('span', { class: 'count' });
    this.more = element('button', { type: 'button', hidden: '' }, 'Show more');
    this.body = element('tbody');
    this.heads = columns.map((column, place) => this.head(column, place));
    columns.forEach((column, place) => {
      if (!column.action) this.order.append(element('option', { value: place }, column.label));
    });
    const head = element('thead', {}, element('tr', {}, ...this.heads));
    const table = element('table', { class: 'cards' }, head, this.body);
    const order = element('span', { class: 'order' }, 'Sort by ', this.order);
    this.scroll = element(
      'div',
      { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': name },
      table,
    );
    place.append(element('div', { class: 'tools' }, this.filter, order, this.count), this.scroll, this.more);
    this.listen();
    this.markSort();
  }

  head(column, place) {
    if (column.action) return element('th', { scope: 'col' }, column.label);
    const button = element('button', { type: 'button' }, column.label);
    button.addEventListener('click', () => this.sortBy(place));
    return element('th', { scope: 'col', class: kind(column) }, button);
  }

  listen() {
    this.filter.addEventListener('input', () => {
      this.limit = ROWS;
      this.render();
    });
    this.order.addEventListener('change', () => this.sortBy(Number(this.order.value)));
    this.more.addEventListener('click', () => {
      this.limit += MORE_ROWS;
      this.render();
    });
  }

  /** Sorts by a column; by the same one again, the other way round. */
  sortBy(column) {
    const again = this.sort.column === column;
    this.sort = { column, down: again ? !this.sort.down : Boolean(this.columns[column].number) };
    this.markSort();
    this.render();
  }

  markSort() {
    this.heads.forEach((head, place) => {
      if (this.columns[place].action) return;
      const way = this.sort.down ? 'descending' : 'ascending';
      head.setAttribute('aria-sort', place === this.sort.column ? way : 'none');
    });
    this.order.value = String(this.sort.column);
  }

  show(rows) {
    this.rows = rows;
    this.render();
  }

  /** Rows that the filter lets through, in order: each of its words is in one of the row's texts. */
  chosen() {
    const words = this.filter.value
      .toLowerCase()
      .split(/\s+/)
      .filter((word) => word);
    const texts = (row) =>
      this.columns
        .map((column) => column.text?.(row) ?? '')
        .join('\n')
        .toLowerCase();
    const fits = (row) => words.every((word) => texts(row).includes(word));
    const rows = words.length ? this.rows.filter(fits) : [...this.rows];
    const { value } = this.columns[this.sort.column];
    const way = this.sort.down ? -1 : 1;
    return rows.sort((one, other) => compare(value(one), value(other), way));
  }

  render() {
    const chosen = this.chosen();
    const shown = chosen.slice(0, this.limit);
    const all = this.rows.length;
    const some = chosen.length === all ? count(all) : `${count(chosen.length)} of ${count(all)}`;
    setText(this.count, all === 0 ? this.empty : `${some} ${this.noun[all === 1 ? 0 : 1]}`);
    this.more.hidden = chosen.length <= this.limit;
    const keys = new Set(shown.map(this.key));
    for (const [key, row] of this.elements) {
      if (!keys.has(key)) {
        // Who uses the keyboard stays in the table.
        if (row.contains(document.activeElement)) this.scroll.focus();
        row.remove();
        this.elements.delete(key);
      }
    }
    shown.forEach((row, place) => {
      const line = this.line(row);
      if (this.body.children[place] !== line) this.body.insertBefore(line, this.body.children[place] ?? null);
    });
  }

  /** The row's element, with its texts up to date. */
  line(row) {
    const key = this.key(row);
    let line = this.elements.get(key);
    if (!line) {
      line = element('tr', {}, ...this.columns.map((column) => this.cell(column, row)));
      this.elements.set(key, line);
    }
    this.columns.forEach((column, place) => {
      const cell = line.children[place];
      if (column.draw) column.draw(cell.firstChild, row);
      else if (!column.fill) setNumber(cell, column.value(row), column.text(row));
    });
    return line;
  }

  cell(column, row) {
    const cell = element('td', { 'data-label': column.label, class: kind(column) });
    if (column.fill) column.fill(cell, row);
    if (column.draw) cell.append(drawn('svg', { role: 'img', 'aria-label': column.label }));
    return cell;
  }
}

/** Class of a column's cells. */
const kind = (column) => (column.number ? 'number' : column.long ? 'long' : 'text');

/** Order of two values; what is not known comes last, whatever the way. */
function compare(one, other, way) {
  const [isOne, isOther] = [one ?? null, other ?? null].map((value) => value !== null);
  if (!isOne || !isOther) return Number(isOther) - Number(isOne);
  if (typeof one === 'number' && typeof other === 'number') return way * (one - other);
  return way * String(one).localeCompare(String(other), 'en', { numeric: true });
}
