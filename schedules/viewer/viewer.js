// Puts the page together, and listens to mouse and keyboard.

const ZOOM_STEP = 1.6;
const PAN_PART = 0.15; // share of the shown interval that a key press moves
const WHEEL = 0.0016; // zoom per pixel of wheel
const WHEEL_LINE = 16; // pixels

class Viewer {
  constructor(about) {
    this.about = about;
    this.view = new TimeView(1, () => this.redraw());
    this.panels = about.panels.map((panel) => new Panel(panel, about, this.view));
    this.view.whole = Math.max(...this.panels.map((panel) => panel.lastEnd)) || 1;
    this.view.to = this.view.whole;
    // Closer than one action nothing more can be seen.
    const shortest = this.panels.flatMap((panel) => panel.layers.map((layer) => layer.shortest)).filter((time) => time > 0);
    this.view.least = shortest.length > 0 ? Math.min(...shortest) : this.view.whole;
    about.resolution = 4 * Math.max(...this.panels.flatMap((panel) => panel.layers.map((layer) => layer.tick)));
    this.panels.forEach((panel) => panel.writeHeader());
    this.buildLegend();
    this.panels.forEach((panel) => this.listen(panel));
    this.listenToPage();
    this.resize();
  }

  // Draws all panels before the next frame, once.
  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.drawNow(); });
  }

  drawNow() {
    const begin = performance.now();
    // What can be compared is drawn alike: everywhere bars or everywhere densities, numbers or whole names.
    const dense = this.panels.some((panel) => panel.isCrowded());
    const named = this.panels.every((panel) => panel.hasRoomForNames());
    this.panels.forEach((panel) => Object.assign(panel, { dense, named }));
    this.panels.forEach((panel) => panel.draw());
    this.lastDraw = performance.now() - begin; // in milliseconds
  }

  resize() {
    this.panels.forEach((panel) => panel.resize());
    this.drawNow();
  }

  buildLegend() {
    const legend = document.getElementById('legend');
    const chunks = Math.max(...this.panels.map((panel) => panel.about.chunks));
    const item = (text, swatches) => {
      const span = document.createElement('span');
      span.append(...swatches, text);
      legend.append(span);
    };
    const swatch = (colour) => {
      const box = document.createElement('i');
      if (colour) box.style.background = css(colour); else box.className = 'bubble';
      return box;
    };
    const used = new Set(this.panels.flatMap((panel) => panel.about.kinds));
    OP_LETTERS.forEach((letters, op) => {
      if (!used.has(letters) || letters === '') return;
      const shades = Array.from({ length: Math.min(chunks, 8) }, (_, chunk) => swatch(shade(op, chunk, chunks)));
      item(OP_WORDS[op], shades);
    });
    item('bubble', [swatch(null)]);
    if (chunks > 1) item('lighter: later chunks of a rank', []);
    const stages = new Set(this.panels.map((panel) => panel.about.stages));
    if (stages.size > 1) item('costs are per stage: a rank with more stages has more to do', []);
  }

  zoomFrom(panel, event) {
    this.view.hold();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? WHEEL_LINE : 1;
    const [right, down] = event.shiftKey ? [event.deltaY || event.deltaX, 0] : [event.deltaX, event.deltaY];
    if (Math.abs(right) > Math.abs(down)) this.view.pan(right * unit * this.timePerPixel(panel));
    else this.view.zoom(Math.exp(down * unit * WHEEL), panel.timeAt(Math.max(GUTTER, event.offsetX)));
  }

  timePerPixel(panel) { return (this.view.to - this.view.from) / panel.chartWidth(); }

  listen(panel) {
    const { canvas } = panel;
    let dragged = null;
    canvas.addEventListener('wheel', (event) => { event.preventDefault(); this.zoomFrom(panel, event); }, { passive: false });
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      this.view.hold();
      dragged = event;
      canvas.setPointerCapture(event.pointerId);
      canvas.classList.add('moving');
      hideCard();
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!dragged) { this.point(panel, event); return; }
      panel.scrollBy(dragged.clientY - event.clientY);
      this.view.pan((dragged.clientX - event.clientX) * this.timePerPixel(panel));
      dragged = event;
    });
    const release = () => { dragged = null; canvas.classList.remove('moving'); };
    canvas.addEventListener('pointerup', release);
    canvas.addEventListener('pointercancel', release);
    canvas.addEventListener('pointerleave', () => this.point(panel, null));
    canvas.addEventListener('dblclick', (event) => this.view.glide(this.view.zoomed(1 / 4, panel.timeAt(event.offsetX))));
  }

  // Shows the card of the action under the pointer.
  point(panel, event) {
    const hit = event && panel.hit(event.offsetX, event.offsetY);
    const before = panel.hover;
    panel.hover = hit && hit.action >= 0 ? this.hoverOf(panel, hit) : null;
    if (before?.action !== panel.hover?.action || before?.layer !== panel.hover?.layer) this.redraw();
    if (!hit) { hideCard(); return; }
    const card = hit.memory ? memoryCard(panel, hit)
      : hit.action < 0 ? bubbleCard(panel, hit)
        : actionCard(panel, hit, panel.hover.twin);
    showCard(card, event.clientX, event.clientY);
  }

  hoverOf(panel, { l, layer, action }) {
    const other = panel.layers.length > 1 ? 1 - l : -1;
    return { layer, action, why: panel.reasons[l].explain(action), twinLayer: panel.layers[other],
      twin: other < 0 ? -1 : panel.reasons[l].sameIn(panel.reasons[other], action) };
  }

  toggle(id, property) {
    const on = !this.panels[0][property];
    this.panels.forEach((panel) => { panel[property] = on; });
    document.getElementById(id).setAttribute('aria-pressed', String(on));
    this.redraw();
  }

  toggleTheme() {
    document.documentElement.dataset.theme = darkNow() ? 'light' : 'dark';
    this.redraw();
  }

  scroll(pixels) {
    this.panels.forEach((panel) => panel.scrollBy(pixels));
    this.redraw();
  }

  stretch(factor) {
    this.panels.forEach((panel) => panel.stretchBy(factor));
    this.redraw();
  }

  pan(part) {
    const by = part * (this.view.to - this.view.from);
    this.view.glide([this.view.from + by, this.view.to + by]);
  }

  // What each key and button does.
  actions() {
    const zoomIn = () => this.view.glide(this.view.zoomed(1 / ZOOM_STEP));
    const zoomOut = () => this.view.glide(this.view.zoomed(ZOOM_STEP));
    const fit = () => this.view.glide([0, this.view.whole]);
    const path = () => this.toggle('path', 'showPath');
    const memory = () => this.toggle('memory', 'showMemory');
    const theme = () => this.toggleTheme();
    const save = () => saveSvg(this.panels);
    return {
      keys: { '+': zoomIn, '=': zoomIn, '-': zoomOut, _: zoomOut, 0: fit, c: path, m: memory, t: theme, s: save,
        ArrowLeft: () => this.pan(-PAN_PART), ArrowRight: () => this.pan(PAN_PART),
        '[': () => this.stretch(1 / 1.25), ']': () => this.stretch(1.25), ArrowUp: () => this.scroll(-60), ArrowDown: () => this.scroll(60) },
      buttons: { in: zoomIn, out: zoomOut, fit, path, memory, theme, save },
    };
  }

  listenToPage() {
    const { keys, buttons } = this.actions();
    addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    for (const [id, run] of Object.entries(buttons)) document.getElementById(id).addEventListener('click', run);
    addEventListener('resize', () => this.resize());
    addEventListener('beforeprint', () => this.resize());
    addEventListener('afterprint', () => this.resize());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.redraw());
    matchMedia('print').addEventListener('change', () => this.resize());
  }
}

const viewer = new Viewer(JSON.parse(readElement('about')));
