// Numbers and actions as text.

// Index: Op of schedules/action.h.
const OP_LETTERS = ['', 'F', 'B', 'I', 'W', 'SEND_F', 'RECV_F', 'SEND_B', 'RECV_B', 'REDUCE_GRAD', 'RECOMPUTE',
  'OPTIMIZER_STEP'];
const OP_WORDS = ['idle', 'forward', 'backward', 'input gradient', 'weight gradient', 'send', 'receive', 'send',
  'receive', 'gradient reduction', 'recompute', 'optimizer step'];
const OP = Object.fromEntries(OP_LETTERS.map((letters, op) => [letters, op]));

// "33", "49.6", "1,432,709".
const formatNumber = (value) => {
  const text = String(Number(value.toPrecision(9)));
  if (Math.abs(value) < 10000 || text.includes('e')) return text;
  const [whole, fraction] = text.split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',');
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
};

const SECOND_UNITS = [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']];

// The unit in which `value` seconds, or steps of that size, are easiest to read.
const unitFor = (value) => SECOND_UNITS.find(([size]) => Math.abs(value) >= size * 0.9995) ?? SECOND_UNITS[3];

// A time or duration: a plain number, or seconds with a unit and four digits. Never finer than page.resolution: times
// are whole ticks, so smaller digits are rounding noise.
const formatTime = (value, page) => {
  if (!page.seconds) {
    const step = 10 ** Math.ceil(Math.log10(page.resolution));
    return formatNumber(Math.abs(value) < 1e15 * step ? Number((Math.round(value / step) * step).toPrecision(15)) : value);
  }
  if (value === 0) return '0 s';
  const [size, unit] = unitFor(value);
  return `${(value / size).toPrecision(4)} ${unit}`;
};

const BYTE_UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const formatBytes = (bytes) => {
  let unit = 0;
  for (; bytes >= 1024 && unit + 1 < BYTE_UNITS.length; ++unit) bytes /= 1024;
  return `${Number(bytes.toPrecision(4))} ${BYTE_UNITS[unit]}`;
};

const formatPercent = (fraction) => `${(100 * fraction).toFixed(1)}%`;
const formatSigned = (fraction) => `${fraction < 0 ? '−' : '+'}${Math.abs(100 * fraction).toFixed(1)}%`;

// "2F0", as PyTorch writes it.
const actionName = (op, stage, microBatch) => `${stage}${OP_LETTERS[op]}${microBatch < 0 ? '' : microBatch}`;

// "forward of micro-batch 0 through stage 2"
const actionWords = (op, stage, microBatch) =>
  (microBatch < 0 ? `${OP_WORDS[op]} of stage ${stage}` : `${OP_WORDS[op]} of micro-batch ${microBatch}, stage ${stage}`);

// Round times between `from` and `to`, at most `most` of them, 1, 2 or 5 times a power of ten apart.
const axisTicks = (from, to, most) => {
  const least = (to - from) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].find((multiple) => multiple * power >= least * (1 - 1e-12)) * power;
  const ticks = [];
  for (let i = Math.ceil(from / step); i * step <= to; ++i) ticks.push(i * step);
  return { step, ticks };
};
