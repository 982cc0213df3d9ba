// The card beside the pointer: what an action is, when it runs, and why not earlier.

const cardElement = () => document.getElementById('card');

const hideCard = () => { cardElement().hidden = true; };

// Shows {name, title, rows: [[head, value...]...], lines} beside (x, y), inside the window. Text only: names are data.
const showCard = ({ name, title, rows, lines }, x, y) => {
  const card = cardElement();
  const make = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
  const heading = make('h2', '');
  if (name) heading.append(make('code', name));
  heading.append(title);
  const table = document.createElement('table');
  for (const [head, ...values] of rows) {
    const row = table.insertRow();
    row.append(make('th', head), ...values.map((value) => make('td', value)));
  }
  card.replaceChildren(heading, table, ...lines.map((line) => make('p', line)));
  card.hidden = false;
  const { width, height } = card.getBoundingClientRect();
  const away = 16;
  const left = x + away + width < innerWidth ? x + away : Math.max(4, x - away - width);
  const top = y + away + height < innerHeight ? y + away : Math.max(4, y - away - height);
  Object.assign(card.style, { left: `${left}px`, top: `${top}px` });
};

// A simulated message that took longer than its edge takes waited for other messages on the link: says for which.
const linkWords = (panel, l, why) => {
  const { layer, real } = panel.reasons[l];
  const edge = layer.op(why.producer) === OP.F ? layer.stages[why.producer] : layer.stages[why.producer] - 1;
  const least = panel.about.send[edge];
  if (real || least === undefined) return '';
  const waited = why.message * layer.tick - least;
  return waited > panel.page.resolution ? `, ${formatTime(waited, panel.page)} of it waiting for the link` : '';
};

// Why action i started when it did, in one or two sentences.
const reasonLines = (panel, l, i) => {
  const { layer } = panel.reasons[l];
  const why = panel.reasons[l].explain(i);
  const time = (ticks) => formatTime(ticks * layer.tick, panel.page);
  const rank = layer.rankOf(i);
  const there = (k) => (layer.rankOf(k) === rank ? 'this rank' : `rank ${layer.rankOf(k)}`);
  const name = (k) => layer.actionName(k);
  // In a real run a backward passes its gradient on before it computes its own last weights' gradient.
  const early = ({ producer }) => `${name(producer)} on ${there(producer)}, which passed its result on before its own end at ${time(layer.ends[producer])}`;
  const lines = [];
  if (why.idle > 0) {
    lines.push(`Rank ${rank} was idle for ${time(why.idle)} before it.`);
    if (why.waited) {
      lines.push(why.message < 0 ? `Waited for ${early(why)}.`
        : `Waited for ${name(why.producer)} on ${there(why.producer)}, which ended at ${time(layer.ends[why.producer])}` +
        (why.message > 0 ? `; its message took ${time(why.message)}${linkWords(panel, l, why)}.` : '.'));
      return lines;
    }
  } else if (why.previous >= 0) {
    lines.push(`Waited for ${name(why.previous)}, before it on this rank; no idle time.`);
  } else {
    return ['The first on its rank; started at once.'];
  }
  if (why.producer < 0) return lines;
  const made = why.message > 0 ? `was made ${time(why.message)} earlier` : 'had just been made';
  lines.push(why.message < 0 ? `Its input is from ${early(why)}.` : `Its input from ${name(why.producer)} on ${there(why.producer)} ${made}.`);
  return lines;
};

// [planned, measured, difference] of an action that both layers have.
const comparedRows = (panel, planned, measured) => {
  const [a, b] = panel.layers;
  const time = (value) => formatTime(value, panel.page);
  const later = (difference) => `${difference < 0 ? '−' : '+'}${time(Math.abs(difference))}`;
  const [planTook, runTook] = [a.end(planned) - a.start(planned), b.end(measured) - b.start(measured)];
  return [
    ['', 'planned', 'measured', 'difference'],
    ['start', time(a.start(planned)), time(b.start(measured)), later(b.start(measured) - a.start(planned))],
    ['end', time(a.end(planned)), time(b.end(measured)), later(b.end(measured) - a.end(planned))],
    ['duration', time(planTook), time(runTook), planTook > 0 ? formatSigned(runTook / planTook - 1) : ''],
  ];
};

const actionCard = (panel, { rank, l, layer, action }, twin) => {
  const time = (value) => formatTime(value, panel.page);
  const rows = twin < 0
    ? [['start', time(layer.start(action))], ['end', time(layer.end(action))],
      ['duration', time(layer.end(action) - layer.start(action))]]
    : comparedRows(panel, l === 0 ? action : twin, l === 0 ? twin : action);
  const lines = reasonLines(panel, l, action);
  if (layer.kinds[action] & PAIR) {
    const other = layer.kinds[action] & FIRST_HALF ? action + 1 : action - 1;
    lines.push(`Overlaps with ${layer.actionName(other)}.`);
  }
  if (layer.kinds[action] & CRITICAL) lines.push('On the critical path.');
  return { name: layer.actionName(action), title: `${layer.actionWords(action)}, rank ${rank}`, rows, lines };
};

// An interval in which a rank does nothing.
const bubbleCard = (panel, { rank, time, layer }) => {
  const next = layer.firstAfter(rank, time / layer.tick);
  const before = next > layer.rowStart[rank] ? layer.end(next - 1) : 0;
  const after = next < layer.rowStart[rank + 1] ? layer.start(next) : panel.lastEnd;
  const show = (value) => formatTime(value, panel.page);
  const lines = next < layer.rowStart[rank + 1]
    ? [`Next is ${layer.actionName(next)}.`, ...reasonLines(panel, panel.layers.indexOf(layer), next).slice(1)]
    : ['Nothing is left to do.'];
  return { title: `bubble, rank ${rank}`, lines,
    rows: [['start', show(before)], ['end', show(after)], ['duration', show(after - before)]] };
};

const memoryCard = (panel, { rank, time }) => {
  const curve = panel.curve(rank);
  const limit = panel.memoryLimit(rank);
  const rows = [['held', panel.formatMemory(curve.valueAt(time / panel.layers[0].tick))],
    ['peak', panel.formatMemory(curve.peak)], ['time', formatTime(Number(time.toPrecision(5)), panel.page)]];
  if (limit !== null) rows.splice(2, 0, ['limit', panel.formatMemory(limit)]);
  return { title: panel.inBytes() ? `memory of activations, rank ${rank}` : `activations held, rank ${rank}`, rows, lines: [] };
};
