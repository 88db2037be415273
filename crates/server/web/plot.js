// Small plots.

/** Draws a sparkline from 0 to the largest of the last values, at most so many. */
function sparkline(svg, values, places = HISTORY) {
  const [width, height] = [120, 30];
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  if (!svg.firstChild) svg.append(drawn('path', { class: 'area' }), drawn('path', { class: 'line' }));
  const [area, line] = svg.children;
  if (values.length < 2) {
    for (const path of [area, line]) path.setAttribute('d', '');
    return;
  }
  const most = Math.max(...values) || 1;
  const step = width / (places - 1);
  const begin = width - (values.length - 1) * step;
  const points = values.map((value, place) => {
    const [x, y] = [begin + place * step, height - 1 - (value / most) * (height - 2)];
    return `${x.toFixed(1)} ${y.toFixed(1)}`;
  });
  line.setAttribute('d', `M${points.join('L')}`);
  area.setAttribute('d', `M${begin.toFixed(1)} ${height}L${points.join('L')}L${width} ${height}Z`);
}

/** Draws pairs of bars; a share that is not 0 is seen. `series`: two lists of shares, from 0 to 1. */
function bars(svg, labels, series) {
  // As wide as it is shown, so that its texts are as large as they are meant to be.
  const [width, height, top, foot] = [Math.max(300, svg.clientWidth), 190, 16, 34];
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  const most = Math.max(...series.flat(), 0.01);
  const step = width / labels.length;
  const base = height - foot;
  const parts = [drawn('line', { class: 'axis', x1: 0, x2: width, y1: base, y2: base })];
  labels.forEach((label, place) => {
    const x = place * step;
    const bar = (share, offset, kind) => {
      const tall = share > 0 ? Math.max(2, (share / most) * (base - top)) : 0;
      return drawn('rect', { class: kind, x: x + offset, y: base - tall, width: step / 2 - 3, height: tall });
    };
    parts.push(bar(series[0][place], 3, 'all'), bar(series[1][place], step / 2, 'recent'));
    const middle = { x: x + step / 2, 'text-anchor': 'middle' };
    parts.push(drawn('text', { ...middle, y: base + 14 }, label[0]));
    parts.push(drawn('text', { ...middle, y: base + 28 }, label[1]));
  });
  svg.replaceChildren(...parts);
}
