// One timetable on the page: its heading, its canvas, and the places of everything on it (in CSS pixels).

const GUTTER = 96; // width of the labels left of the bars
const MARGIN = 14; // to the right of the bars
const AXIS = 24; // height of the axis above the lanes
const LEAST_LANE = 9;
const MOST_LANE = 110;
const LEAST_BAR = 2.5; // pixels; where bars are narrower than this on average, density.js draws them
const LEAST_NAMED = 44; // pixels; in narrower bars there is only the number of the micro-batch

class Panel {
  constructor(about, page, view) {
    Object.assign(this, { about, page, view });
    this.layers = about.layers.map((layer) => new Layer(layer, decodeBase64(readElement(layer.data))));
    this.reasons = this.layers.map((layer, l) => new Reasons(layer, l > 0, about));
    this.lastEnd = Math.max(about.makespan, ...this.layers.map((layer) => layer.lastEnd()));
    this.curves = [];
    this.scroll = 0;
    this.stretch = 1; // factor by which lanes are enlarged
    this.hover = null;
    this.showMemory = true;
    this.showPath = false;
    this.build();
    this.painter = new Painter(this);
  }

  build() {
    const make = (tag, parent) => parent.appendChild(document.createElement(tag));
    this.section = make('section', document.getElementById('panels'));
    this.header = make('header', this.section);
    make('h1', this.header).textContent = this.about.title;
    const chart = make('div', this.section);
    chart.className = 'chart';
    this.canvas = make('canvas', chart);
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'img');
    this.canvas.setAttribute('aria-label', `${this.about.title}: ${this.about.facts.join(', ')}`);
  }

  writeHeader() {
    const facts = document.createElement('div');
    facts.className = 'facts';
    for (const fact of this.facts()) {
      const split = fact.lastIndexOf(' ') + 1;
      const value = Object.assign(document.createElement('b'), { textContent: fact.slice(split) });
      const span = document.createElement('span');
      span.append(fact.slice(0, split), value);
      facts.append(span);
    }
    if (this.about.fitted) facts.append('planned: this schedule with the median durations of the run');
    this.header.append(facts);
  }

  facts() {
    const { about } = this;
    const facts = about.facts.map((fact) => (this.page.seconds ? this.withSeconds(fact) : fact));
    facts.push(`peak activations ${Math.max(...about.peakActivations)}`);
    if (about.activationLimit >= 0) facts.push(`limit ${about.activationLimit}`);
    if (this.layers[1]) facts.push(`measured (${this.layers[1].name}) ${formatTime(this.layers[1].lastEnd(), this.page).replace(' ', '\u00a0')}`);
    return facts;
  }

  // Facts that are times get their unit.
  withSeconds(fact) {
    if (fact.startsWith('makespan')) return `makespan ${formatTime(this.about.makespan, this.page).replace(' ', '\u00a0')}`;
    if (fact.startsWith('bound')) return `bound ${formatTime(this.about.lowerBound, this.page).replace(' ', '\u00a0')}`;
    return fact;
  }

  resize() {
    this.pixelRatio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * this.pixelRatio);
    this.canvas.height = Math.round(this.height * this.pixelRatio);
    const natural = (this.height - AXIS - 4) / this.about.ranks;
    this.laneHeight = this.stretch * Math.min(Math.max(natural, LEAST_LANE), MOST_LANE * this.layers.length);
    this.scrollBy(0);
  }

  stretchBy(factor) {
    this.stretch = Math.min(16, Math.max(1, this.stretch * factor));
    this.resize();
  }

  draw() { this.painter.draw(); }

  scrollBy(pixels) {
    const most = Math.max(0, this.laneHeight * this.about.ranks - (this.height - AXIS - 4));
    this.scroll = Math.min(most, Math.max(0, this.scroll + pixels));
  }

  chartWidth() { return Math.max(1, this.width - GUTTER - MARGIN); }
  right() { return GUTTER + this.chartWidth(); }
  x(time) { return GUTTER + ((time - this.view.from) / (this.view.to - this.view.from)) * this.chartWidth(); }
  clampX(time) { return Math.min(Math.max(this.x(time), GUTTER - 20), this.width + 20); }
  timeAt(x) { return this.view.from + ((x - GUTTER) / this.chartWidth()) * (this.view.to - this.view.from); }

  visibleRanks() {
    const first = Math.floor(this.scroll / this.laneHeight);
    const last = Math.ceil((this.scroll + this.height - AXIS) / this.laneHeight);
    return [Math.max(0, first), Math.min(this.about.ranks, last)];
  }

  // The actions of a rank that can be seen: [first, end).
  visibleActions(layer, rank) {
    const first = layer.firstAfter(rank, this.view.from / layer.tick);
    let end = layer.firstAfter(rank, this.view.to / layer.tick, first);
    while (end < layer.rowStart[rank + 1] && layer.starts[end] * layer.tick < this.view.to) ++end;
    return [first, end];
  }

  // Whether a lane that can be seen has more bars than there is room for.
  isCrowded() {
    const most = (Math.min(this.right(), this.x(this.lastEnd)) - GUTTER) / LEAST_BAR;
    const [from, to] = this.visibleRanks();
    return this.layers.some((layer) => {
      for (let rank = from; rank < to; ++rank) {
        const [first, end] = this.visibleActions(layer, rank);
        if (end - first > Math.max(most, 1)) return true;
      }
      return false;
    });
  }

  // Whether bars of every kind are wide enough for their names, most of the time.
  hasRoomForNames() {
    const pixels = this.chartWidth() / (this.view.to - this.view.from);
    return this.layers.every((layer) => layer.shortestKind * pixels > LEAST_NAMED);
  }

  // The places of a rank's bars (a box per layer) and of its memory curve.
  lane(rank) {
    const y = Math.round(AXIS + rank * this.laneHeight - this.scroll);
    const below = Math.round(AXIS + (rank + 1) * this.laneHeight - this.scroll);
    const inner = below - y - (this.laneHeight >= 20 ? 6 : 1);
    const memory = this.showMemory && inner >= 24 ? Math.round(Math.max(9, inner * 0.28)) : 0;
    const each = Math.floor((inner - memory) / this.layers.length);
    const bars = this.layers.map((_, l) => ({ y: y + l * each, height: each - (l + 1 < this.layers.length ? 1 : 0) }));
    return { y, bars, memory: memory ? { y: y + each * this.layers.length + 2, height: memory - 2 } : null };
  }

  // The box of an action in its lane; the halves of a pair lie one above the other.
  barBox(layer, i, bars) {
    const x = this.x(layer.start(i));
    const width = this.x(layer.end(i)) - x;
    if (!(layer.kinds[i] & PAIR)) return { x, width, y: bars.y, height: bars.height };
    const half = bars.height / 2;
    return { x, width, y: layer.kinds[i] & SECOND_HALF ? bars.y + half : bars.y, height: half };
  }

  // What is at a point: {rank, time, layer, l, action} with action -1 in a bubble; {rank, time, memory: true}; or null.
  hit(x, y) {
    if (x < GUTTER || x > this.right() || y < AXIS) return null;
    const rank = Math.floor((y - AXIS + this.scroll) / this.laneHeight);
    if (rank >= this.about.ranks) return null;
    const lane = this.lane(rank);
    const time = this.timeAt(x);
    if (time > this.lastEnd) return null;
    if (lane.memory && y >= lane.memory.y) return { rank, time, memory: true };
    const l = lane.bars.findLastIndex((bars) => y >= bars.y);
    if (l < 0 || y > lane.bars[l].y + lane.bars[l].height) return null;
    const lower = y >= lane.bars[l].y + lane.bars[l].height / 2;
    return { rank, time, l, layer: this.layers[l], action: this.layers[l].at(rank, time, lower) };
  }

  curve(rank) {
    if (!this.curves[rank]) {
      this.curves[rank] = new MemoryCurve(this.layers[0], rank, this.about);
      this.curves[rank].rank = rank;
    }
    return this.curves[rank];
  }

  inBytes() { return this.about.activationBytes.length > 0; }
  formatMemory(value) { return this.inBytes() ? formatBytes(value) : formatNumber(value); }
  memoryLimit(rank) {
    if (this.inBytes()) return this.about.byteLimit[rank] ?? null;
    return this.about.activationLimit >= 0 ? this.about.activationLimit : null;
  }

  // The top of the memory scale, the same for every rank so that ranks can be compared. A limit far above all is left
  // out.
  mostMemory() {
    if (this.most === undefined) {
      const ranks = Array.from({ length: this.about.ranks }, (_, rank) => rank);
      const peak = ranks.reduce((most, rank) => Math.max(most, this.curve(rank).peak), 0);
      const limit = ranks.reduce((most, rank) => Math.max(most, this.memoryLimit(rank) ?? 0), 0);
      this.most = (limit <= 3 * peak ? Math.max(peak, limit) : peak) * 1.08 || 1;
    }
    return this.most;
  }

  busy(rank) { return this.about.makespan > 0 ? this.about.work[rank] / this.about.makespan : 0; }

  criticalPath() {
    if (!this.path) {
      const { kinds, starts, size } = this.layers[0];
      this.path = [];
      for (let i = 0; i < size; ++i) if (kinds[i] & CRITICAL) this.path.push(i);
      this.path.sort((a, b) => starts[a] - starts[b]);
    }
    return this.path;
  }
}
