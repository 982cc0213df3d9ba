// Draws one panel: lanes of bars with the memory curve under them, the axis, the critical path. Only what is visible.

const FONT = 'system-ui, "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif';
const DIGIT = 0.58; // width of a digit in font sizes
const FADED = 0.3; // opacity of what is not on the critical path

class Painter {
  // `context`: a canvas' or an SvgContext.
  constructor(panel, context = panel.canvas.getContext('2d')) {
    this.panel = panel;
    this.context = context;
    this.looks = barLooks(panel.about.chunks);
    this.densities = panel.layers.map((layer) => new DensityPainter(layer));
  }

  draw() {
    const { panel, context } = this;
    this.theme = themeNow();
    this.hatch = this.makeHatch();
    context.setTransform(panel.pixelRatio, 0, 0, panel.pixelRatio, 0, 0);
    context.fillStyle = this.theme.page;
    context.fillRect(0, 0, panel.width, panel.height);
    const [first, last] = panel.visibleRanks();
    for (let rank = first; rank < last; ++rank) this.drawLane(rank, panel.lane(rank));
    if (panel.showPath) this.drawPath();
    this.drawHover();
    this.drawAxis();
    for (let rank = first; rank < last; ++rank) this.drawLabel(rank, panel.lane(rank));
    this.coverTop();
  }

  newPath(other) { return this.context.newPath ? this.context.newPath(other) : new Path2D(other); }

  makeHatch() {
    if (this.context.hatch) return this.context.hatch(css(this.theme.bubble), this.theme.hatch);
    const tile = document.createElement('canvas');
    tile.width = tile.height = 8;
    const draw = tile.getContext('2d');
    draw.fillStyle = css(this.theme.bubble);
    draw.fillRect(0, 0, 8, 8);
    draw.strokeStyle = this.theme.hatch;
    draw.lineWidth = 1.3;
    for (const x of [-8, 0, 8]) { draw.beginPath(); draw.moveTo(x - 1, 9); draw.lineTo(x + 9, -1); draw.stroke(); }
    return this.context.createPattern(tile, 'repeat');
  }

  drawLane(rank, lane) {
    const { panel, context } = this;
    const right = Math.min(panel.right(), panel.x(panel.lastEnd));
    panel.layers.forEach((layer, l) => {
      const bars = lane.bars[l];
      context.fillStyle = this.hatch;
      context.fillRect(GUTTER, bars.y, Math.max(0, right - GUTTER), bars.height);
      this.drawBars(layer, this.densities[l], rank, bars, right);
    });
    if (lane.memory) this.drawMemory(panel.curve(rank), lane.memory, right);
  }

  drawBars(layer, density, rank, bars, right) {
    const { panel } = this;
    if (panel.dense) {
      this.drawDensity(layer, density, rank, bars, right);
      return;
    }
    const [first, end] = panel.visibleActions(layer, rank);
    for (let i = first; i < end; ++i) this.drawBar(layer, i, panel.barBox(layer, i, bars));
  }

  drawDensity(layer, density, rank, bars, right) {
    const { panel, context } = this;
    const ratio = panel.pixelRatio;
    const box = { x: Math.round(GUTTER * ratio), y: Math.round(bars.y * ratio),
      width: Math.round((right - GUTTER) * ratio), height: Math.max(1, Math.round(bars.height * ratio)) };
    if (box.width < 1) return;
    const perPixel = (panel.view.to - panel.view.from) / layer.tick / (panel.chartWidth() * ratio);
    density.paint(context, rank, box, panel.view.from / layer.tick, perPixel, this.theme.bubble);
  }

  drawBar(layer, i, box) {
    const { panel, context } = this;
    const x = Math.max(box.x, GUTTER);
    const width = Math.min(box.x + box.width, panel.right()) - x;
    const chunk = panel.about.chunkOfStage[layer.stages[i]] ?? 0;
    const look = this.looks[layer.op(i)][chunk];
    const gap = Math.min(1, width * 0.2);
    context.fillStyle = this.theme.page;
    context.fillRect(x, box.y, width, box.height);
    const faded = panel.showPath && !(layer.kinds[i] & CRITICAL);
    context.globalAlpha = faded ? FADED : 1;
    context.fillStyle = look.fill;
    context.fillRect(x, box.y, width - gap, box.height);
    context.globalAlpha = 1;
    this.drawNumber(layer, i, box, x, width, faded ? this.theme.quiet : look.text);
  }

  // The number of the micro-batch, or the whole name of the action where all bars have room for theirs.
  drawNumber(layer, i, box, x, width, fill) {
    const size = Math.min(12, box.height * 0.78);
    if (size < 7 || width < 6) return;
    const [left, right] = [Math.max(x, GUTTER), Math.min(x + width, this.panel.right())];
    const number = String(layer.microBatches[i] < 0 ? '' : layer.microBatches[i]);
    const text = this.panel.named ? layer.actionName(i) : number;
    if ((text.length + 0.6) * DIGIT * size >= right - left) return;
    const { context } = this;
    context.font = `${size}px ${FONT}`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.fillStyle = fill;
    context.fillText(text, (left + right) / 2, box.y + box.height / 2 + 0.5);
  }

  drawMemory(curve, box, right) {
    const { panel, context } = this;
    const tick = panel.layers[0].tick;
    const base = box.y + box.height;
    const y = (value) => base - (value / panel.mostMemory()) * box.height;
    const ticksAt = (x) => panel.timeAt(x) / tick;
    const line = this.newPath();
    const level = (x, value) => line.lineTo(x, y(value));
    const first = curve.eventsUntil(ticksAt(GUTTER));
    const last = curve.eventsUntil(ticksAt(right));
    let value = first > 0 ? curve.values[first - 1] : 0;
    line.moveTo(GUTTER, y(value));
    if (last - first <= right - GUTTER) {
      for (let i = first; i < last; ++i) {
        const x = panel.x(curve.times[i] * tick);
        level(x, value);
        value = curve.values[i];
        level(x, value);
      }
      level(right, value);
    } else {
      for (let x = GUTTER, i = first; x < right; ++x) { // the greatest value in each column of pixels
        const next = curve.eventsUntil(ticksAt(x + 1));
        level(x, Math.max(next > i ? curve.most(i, next) : 0, i > 0 ? curve.values[i - 1] : 0));
        i = next;
      }
    }
    const area = this.newPath(line);
    area.lineTo(right, base);
    area.lineTo(GUTTER, base);
    context.fillStyle = this.theme.memory;
    context.fill(area);
    context.strokeStyle = this.theme.memoryLine;
    context.lineWidth = 1;
    context.stroke(line);
    this.drawLimit(panel.memoryLimit(curve.rank), y, right);
  }

  drawLimit(limit, y, right) {
    if (limit === null) return;
    const { context } = this;
    context.strokeStyle = this.theme.limit;
    context.setLineDash([5, 3]);
    context.beginPath();
    context.moveTo(GUTTER, Math.round(y(limit)) + 0.5);
    context.lineTo(right, Math.round(y(limit)) + 0.5);
    context.stroke();
    context.setLineDash([]);
  }

  // A line along the bars of the critical path, and from each bar to the next.
  drawPath() {
    const { panel, context } = this;
    const layer = panel.layers[0];
    const path = panel.criticalPath();
    const seen = (i) => layer.end(i) >= panel.view.from && layer.start(i) <= panel.view.to;
    context.strokeStyle = this.theme.path;
    context.lineWidth = 2;
    context.lineJoin = 'round';
    context.beginPath();
    let open = false;
    let at = -Infinity;
    path.forEach((i, k) => {
      if (!seen(i) && !(k + 1 < path.length && seen(path[k + 1])) && !(k > 0 && seen(path[k - 1]))) { open = false; return; }
      const lane = panel.lane(layer.rankOf(i)).bars[0];
      const y = lane.y + lane.height - 1.5;
      const [left, right] = [panel.clampX(layer.start(i)), panel.clampX(layer.end(i))];
      if (right - at < 0.7) return; // many arrows in one pixel
      if (open) context.lineTo(left, y); else context.moveTo(left, y);
      context.lineTo(right, y);
      [open, at] = [true, right];
    });
    context.stroke();
  }

  // Frames the action under the pointer, the action that it waited for, and the same action in the other layer.
  drawHover() {
    const { hover } = this.panel;
    if (!hover) return;
    const { context, panel } = this;
    context.strokeStyle = this.theme.text;
    context.lineWidth = 2;
    const box = this.frame(hover.layer, hover.action);
    if (hover.twin >= 0) this.frame(hover.twinLayer, hover.twin);
    const { producer, waited } = hover.why;
    if (!waited) return;
    const from = this.frame(hover.layer, producer);
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(panel.clampX(hover.layer.end(producer)), from.y + from.height / 2);
    context.lineTo(box.x, box.y + box.height / 2);
    context.stroke();
    context.setLineDash([]);
  }

  frame(layer, i) {
    const { panel } = this;
    const lane = panel.lane(layer.rankOf(i)).bars[panel.layers.indexOf(layer)];
    const box = panel.barBox(layer, i, lane);
    const x = Math.max(box.x, GUTTER - 20);
    const width = Math.min(box.x + box.width, panel.width + 20) - x;
    this.context.strokeRect(x, box.y, Math.max(2, width), box.height);
    return box;
  }

  drawAxis() {
    const { panel, context } = this;
    this.coverTop();
    const { seconds } = panel.page;
    const { step, ticks } = axisTicks(panel.view.from, panel.view.to, panel.chartWidth() / 90);
    const [size, unit] = seconds ? unitFor(panel.view.to - panel.view.from) : [1, ''];
    const digits = Math.max(0, -Math.floor(Math.log10(step / size)));
    const bottom = Math.min(panel.height, AXIS + panel.laneHeight * panel.about.ranks - panel.scroll);
    context.font = `11px ${FONT}`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (const tick of ticks) {
      const x = Math.round(panel.x(tick)) + 0.5;
      context.fillStyle = this.theme.grid;
      context.fillRect(x - 0.5, AXIS - 4, 1, bottom - AXIS + 4);
      context.fillStyle = this.theme.quiet;
      const number = seconds ? `${(tick / size).toFixed(digits)} ${unit}` : formatNumber(Number(tick.toFixed(digits)));
      context.fillText(number, Math.min(x, panel.width - 20), AXIS / 2);
    }
  }

  coverTop() {
    this.context.fillStyle = this.theme.page;
    this.context.fillRect(0, 0, GUTTER - 20, AXIS);
  }

  drawLabel(rank, lane) {
    const { panel, context } = this;
    context.fillStyle = this.theme.page;
    context.fillRect(0, lane.y, GUTTER - 1, Math.ceil(panel.laneHeight) + 1); // lanes may be a fraction of a pixel apart
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    const write = (text, y, size, colour) => {
      context.font = `${size}px ${FONT}`;
      context.fillStyle = colour;
      context.fillText(text, GUTTER - 8, y);
    };
    const size = Math.min(13, panel.laneHeight - 1);
    if (size < 8) {
      const every = Math.ceil(10 / panel.laneHeight);
      if (rank % every === 0) write(String(rank), lane.y + panel.laneHeight / 2, 9, this.theme.quiet);
      return;
    }
    const bars = lane.bars[0];
    const roomy = bars.height >= 27;
    write(`rank ${rank}`, bars.y + bars.height / 2 - (roomy ? 7 : 0), size, this.theme.text);
    const below = lane.bars[1] ? 'planned' : `${formatPercent(panel.busy(rank))} busy`;
    if (roomy) write(below, bars.y + bars.height / 2 + 8, 10.5, this.theme.quiet);
    if (lane.bars[1] && lane.bars[1].height >= 10) write('measured', lane.bars[1].y + lane.bars[1].height / 2, 10.5, this.theme.quiet);
    if (lane.memory && lane.memory.height >= 10) {
      write(`peak ${panel.formatMemory(panel.curve(rank).peak)}`, lane.memory.y + lane.memory.height / 2, 10.5, this.theme.quiet);
    }
  }
}
