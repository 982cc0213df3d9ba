// Paints bars that are narrower than a pixel: each column of pixels shows the share of its time that each kind of
// action took, stacked from below, and the bubble above. A column costs a few steps, however many actions it covers.

const rgba = ([red, green, blue]) => (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0; // little-endian

class DensityPainter {
  constructor(layer) {
    this.layer = layer;
    this.colours = layer.slotOps.map((op) => rgba(colourOf(op)));
    this.shares = new Float64Array(layer.slotOps.length);
  }

  // Adds up, into `totals`, the ticks that each slot worked before time `ticks`; `i` must be firstAfter(ticks).
  workBefore(rank, ticks, i, totals) {
    const { layer } = this;
    for (let slot = 0; slot < totals.length; ++slot) totals[slot] = layer.worked[slot][i];
    const end = layer.rowStart[rank + 1];
    for (let k = i; k < end && k < i + 2 && layer.starts[k] < ticks; ++k) { // it may lie in both halves of a pair
      const share = (ticks - layer.starts[k]) * (layer.kinds[k] & PAIR ? 0.5 : 1);
      totals[layer.slotOps.indexOf(layer.op(k))] += share;
    }
  }

  // Paints [fromTicks, fromTicks + width * perPixel) of a rank into a box of device pixels.
  paint(context, rank, box, fromTicks, perPixel, bubble) {
    const image = context.createImageData(box.width, box.height);
    const pixels = new Uint32Array(image.data.buffer);
    const background = rgba(bubble);
    let before = new Float64Array(this.shares.length);
    let after = new Float64Array(this.shares.length);
    let i = this.layer.firstAfter(rank, fromTicks);
    this.workBefore(rank, fromTicks, i, before);
    for (let x = 0; x < box.width; ++x) {
      const ticks = fromTicks + (x + 1) * perPixel;
      i = this.layer.firstAfter(rank, ticks, i);
      this.workBefore(rank, ticks, i, after);
      this.column(pixels, x, box, before, after, perPixel, background);
      [before, after] = [after, before];
    }
    context.putImageData(image, box.x, box.y);
  }

  column(pixels, x, box, before, after, perPixel, background) {
    let y = box.height;
    let filled = 0;
    for (let slot = 0; slot < this.colours.length; ++slot) {
      filled += ((after[slot] - before[slot]) / perPixel) * box.height;
      const top = Math.max(0, box.height - Math.round(filled));
      for (; y > top; --y) pixels[(y - 1) * box.width + x] = this.colours[slot];
    }
    for (; y > 0; --y) pixels[(y - 1) * box.width + x] = background;
  }
}
