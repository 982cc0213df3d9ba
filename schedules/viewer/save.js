// What is on the page as an SVG: panels are painted into it by the same code as onto their canvases.

const SAVED_HEAD = 46; // pixels above each panel, for its title and facts
const SAVED_FOOT = 30; // pixels below all panels, for the legend

const escaped = (text) => String(text).replace(/[&<>"]/g, (letter) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[letter]);
const shortNumber = (value) => String(Number(value.toFixed(2)));

// A path as SVG writes it; takes the place of Path2D.
class SvgPath {
  constructor(other) { this.steps = other ? [...other.steps] : []; }
  moveTo(x, y) { this.steps.push(`M${shortNumber(x)} ${shortNumber(y)}`); }
  lineTo(x, y) { this.steps.push(`L${shortNumber(x)} ${shortNumber(y)}`); }
  toString() { return this.steps.join(''); }
}

// The part of a canvas' context that Painter and DensityPainter use.
class SvgContext {
  constructor(hatchName) {
    Object.assign(this, { hatchName, elements: [], globalAlpha: 1, lineWidth: 1, dash: [], path: new SvgPath() });
  }

  add(name, attributes, text) {
    const list = Object.entries(attributes).map(([key, value]) => ` ${key}="${escaped(typeof value === 'number' ? shortNumber(value) : value)}"`);
    this.elements.push(`<${name}${list.join('')}${text === undefined ? '/>' : `>${escaped(text)}</${name}>`}`);
  }

  newPath(other) { return new SvgPath(other); }
  setTransform() {}
  setLineDash(dash) { this.dash = dash; }
  filled() { return this.globalAlpha === 1 ? { fill: this.fillStyle } : { fill: this.fillStyle, 'fill-opacity': this.globalAlpha }; }
  stroked() {
    const style = { fill: 'none', stroke: this.strokeStyle, 'stroke-width': this.lineWidth };
    return this.dash.length > 0 ? { ...style, 'stroke-dasharray': this.dash.join(' ') } : style;
  }

  fillRect(x, y, width, height) {
    if (width > 0 && height > 0) this.add('rect', { x, y, width, height, ...this.filled() });
  }
  strokeRect(x, y, width, height) { this.add('rect', { x, y, width: Math.max(0, width), height, ...this.stroked() }); }
  fillText(text, x, y) {
    const [size, family] = this.font.split(/px (.*)/s);
    const anchor = { center: 'middle', right: 'end' }[this.textAlign] ?? 'start';
    this.add('text', { x, y, 'font-size': Number(size), 'font-family': family, 'text-anchor': anchor, 'dominant-baseline': 'central',
      ...this.filled() }, text);
  }
  beginPath() { this.path = new SvgPath(); }
  moveTo(x, y) { this.path.moveTo(x, y); }
  lineTo(x, y) { this.path.lineTo(x, y); }
  stroke(path = this.path) { this.add('path', { d: path, ...this.stroked() }); }
  fill(path) { this.add('path', { d: path, ...this.filled() }); }

  hatch(ground, line) {
    this.elements.push(`<defs><pattern id="${this.hatchName}" width="8" height="8" patternUnits="userSpaceOnUse">` +
      `<rect width="8" height="8" fill="${ground}"/><path d="M-1 9L9 -1M-5 5L5 -5M3 13L13 3" stroke="${line}" stroke-width="1.3"/></pattern></defs>`);
    return `url(#${this.hatchName})`;
  }

  // Densities are pixels, and stay so.
  createImageData(width, height) { return new ImageData(width, height); }
  putImageData(image, x, y) {
    const canvas = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height });
    canvas.getContext('2d').putImageData(image, 0, 0);
    const ratio = this.pixelRatio;
    this.add('image', { x: x / ratio, y: y / ratio, width: image.width / ratio, height: image.height / ratio,
      style: 'image-rendering:pixelated', href: canvas.toDataURL() });
  }
}

// One panel: its title, its facts, and what its canvas shows.
const savedPanel = (panel, number, top) => {
  const context = new SvgContext(`hatch-${number}`);
  context.pixelRatio = panel.pixelRatio;
  new Painter(panel, context).draw();
  const theme = themeNow();
  const head = new SvgContext('');
  head.textAlign = 'left';
  Object.assign(head, { fillStyle: theme.text, font: `17px ${FONT}` });
  head.fillText(panel.about.title, 16, top + 16);
  Object.assign(head, { fillStyle: theme.quiet, font: `12px ${FONT}` });
  head.fillText(panel.facts().join(' · '), 16, top + 35);
  return `${head.elements.join('\n')}\n<svg y="${top + SAVED_HEAD}" width="${panel.width}" height="${panel.height}">\n${context.elements.join('\n')}\n</svg>`;
};

const savedLegend = (panels, y) => {
  const context = new SvgContext('');
  const theme = themeNow();
  context.textAlign = 'left';
  context.font = `12px ${FONT}`;
  let x = 16;
  const item = (fill, text) => {
    context.fillStyle = fill;
    context.fillRect(x, y - 6, 12, 12);
    context.fillStyle = theme.text;
    context.fillText(text, x + 18, y);
    x += 18 + 7 * text.length + 16;
  };
  const used = new Set(panels.flatMap((panel) => panel.about.kinds));
  OP_LETTERS.forEach((letters, op) => { if (letters !== '' && used.has(letters)) item(css(colourOf(op)), OP_WORDS[op]); });
  item('url(#hatch-0)', 'bubble');
  return context.elements.join('\n');
};

// The visible part of all panels, one above the other.
const savedPage = (panels) => {
  let top = 12;
  const parts = panels.map((panel, number) => {
    const part = savedPanel(panel, number, top);
    top += SAVED_HEAD + panel.height;
    return part;
  });
  const width = Math.max(...panels.map((panel) => panel.width));
  const height = top + SAVED_FOOT;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">\n` +
    `<rect width="100%" height="100%" fill="${themeNow().page}"/>\n${parts.join('\n')}\n${savedLegend(panels, top + SAVED_FOOT / 2)}\n</svg>\n`;
};

const saveSvg = (panels) => {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([savedPage(panels)], { type: 'image/svg+xml' }));
  link.download = `${panels.map((panel) => panel.about.title.split(':')[0].replace(/[^\w.-]+/g, '-')).join('-and-')}.svg`;
  link.click();
  URL.revokeObjectURL(link.href);
};
