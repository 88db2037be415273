// Numbers as people read them, with a space before the unit that does not break. What is not known is a dash.

const UNKNOWN = '\u2013';

const isKnown = (number) => typeof number === 'number' && Number.isFinite(number);

/** A count with separators of thousands. */
const count = (number) => (isKnown(number) ? Math.round(number).toLocaleString('en-US') : UNKNOWN);

/** A number with so many significant digits. */
function short(number, digits = 3) {
  if (!isKnown(number)) return UNKNOWN;
  if (number === 0) return '0';
  return Number(number.toPrecision(digits)).toLocaleString('en-US', { maximumFractionDigits: 6 });
}

/** A number with the largest of these units that fits. */
function scaled(number, units, step) {
  if (!isKnown(number)) return UNKNOWN;
  let place = 0;
  while (Math.abs(number) >= step && place < units.length - 1) {
    number /= step;
    place += 1;
  }
  return `${short(number)}\u00a0${units[place]}`;
}

const bitRate = (bits) => scaled(bits, ['b/s', 'kb/s', 'Mb/s', 'Gb/s', 'Tb/s'], 1000);
const bytes = (number) => scaled(number, ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024);
const percent = (share) => (isKnown(share) ? `${short(100 * share)}\u00a0%` : UNKNOWN);
const milliseconds = (ms) => (isKnown(ms) ? `${short(ms)}\u00a0ms` : UNKNOWN);

/** Microseconds in the unit that fits. */
const micros = (us) => scaled(us, ['\u00b5s', 'ms', 's'], 1000);

/** Seconds as hours, minutes and seconds. */
function clock(seconds) {
  if (!isKnown(seconds)) return UNKNOWN;
  const whole = Math.floor(seconds);
  const two = (number) => String(number).padStart(2, '0');
  const days = Math.floor(whole / 86400);
  const rest = `${Math.floor(whole / 3600) % 24}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  return days > 0 ? `${days} d ${rest}` : rest;
}
