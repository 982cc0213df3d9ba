// Colours. Okabe and Ito's palette, which people with any colour vision can tell apart ("Color Universal Design",
// 2008); the same as in the SVG.

const OP_COLOURS = { F: [0, 114, 178], B: [230, 159, 0], I: [213, 94, 0], W: [0, 158, 115], RECOMPUTE: [204, 121, 167] };
const OTHER_COLOUR = [120, 124, 132];

const THEMES = {
  light: { page: '#fff', text: '#1d1f24', quiet: '#5c6370', grid: 'rgb(0 0 0 / 10%)', bubble: [243, 243, 243],
    hatch: '#dcdcdc', memory: 'rgb(90 98 112 / 30%)', memoryLine: '#5a6270', limit: '#d55e00', path: '#111' },
  dark: { page: '#16181d', text: '#e6e8ec', quiet: '#9aa2b1', grid: 'rgb(255 255 255 / 10%)', bubble: [36, 39, 46],
    hatch: '#3a3e48', memory: 'rgb(170 180 196 / 28%)', memoryLine: '#a9b2c0', limit: '#ff8a3c', path: '#fff' },
};

const css = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;
const colourOf = (op) => OP_COLOURS[OP_LETTERS[op]] ?? OTHER_COLOUR;

// Later chunks are lighter, evenly down to half way to white.
const shade = (op, chunk, chunks) => {
  const white = chunks > 1 ? (0.55 * chunk) / (chunks - 1) : 0;
  return colourOf(op).map((value) => Math.round(value + white * (255 - value)));
};

// Black or white, whichever can be read on a colour.
const textOn = ([red, green, blue]) => (0.299 * red + 0.587 * green + 0.114 * blue < 125 ? '#fff' : '#111');

// The looks of a panel's bars: [op][chunk] -> {fill, text}.
const barLooks = (chunks) => OP_LETTERS.map((_, op) => Array.from({ length: chunks }, (_, chunk) => {
  const colour = shade(op, chunk, chunks);
  return { fill: css(colour), text: textOn(colour) };
}));

const darkNow = () => {
  if (matchMedia('print').matches) return false;
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
};
const themeNow = () => (darkNow() ? THEMES.dark : THEMES.light);
