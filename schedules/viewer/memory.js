// What a rank holds over time: activations from the start of F to the end of B (of W where the backward is split), or
// their bytes. Recomputed activations are not held between F and RECOMPUTE (the same rule as in
// schedules/simulate/memory_profile.cc).

const BLOCK = 64; // events; the greatest value of each block is stored

class MemoryCurve {
  constructor(layer, rank, about) {
    const bytes = about.activationBytes.length > 0;
    const from = layer.rowStart[rank];
    const to = layer.rowStart[rank + 1];
    this.times = new Uint32Array(2 * (to - from)); // ticks
    this.values = new Float64Array(2 * (to - from)); // from that time on
    this.length = 0;
    this.held = 0;
    const { recomputed, keyOf } = recomputedIn(layer, from, to);
    for (let i = from; i < to;) {
      const next = layer.kinds[i] & FIRST_HALF ? i + 2 : i + 1;
      for (let k = i; k < next; ++k) this.change(layer.starts[k], atStart(layer, k, about, bytes));
      for (let k = i; k < next; ++k) this.change(layer.ends[k], -atEnd(layer, k, about, bytes, recomputed.has(keyOf(k))));
      i = next;
    }
    this.times = this.times.slice(0, this.length);
    this.values = this.values.slice(0, this.length);
    this.blocks = Float64Array.from({ length: Math.ceil(this.length / BLOCK) }, (_, b) =>
      this.values.subarray(b * BLOCK, (b + 1) * BLOCK).reduce((most, value) => Math.max(most, value), 0));
    this.peak = this.blocks.reduce((most, value) => Math.max(most, value), 0);
  }

  change(time, by) {
    if (by === 0) return;
    this.held += by;
    if (this.length > 0 && this.times[this.length - 1] === time) { // one freed as the next is made
      this.values[this.length - 1] = this.held;
      return;
    }
    this.times[this.length] = time;
    this.values[this.length++] = this.held;
  }

  // How many events lie at or before `ticks`.
  eventsUntil(ticks) {
    let low = 0;
    for (let high = this.length; low < high;) {
      const middle = (low + high) >> 1;
      if (this.times[middle] <= ticks) low = middle + 1; else high = middle;
    }
    return low;
  }

  valueAt(ticks) {
    const events = this.eventsUntil(ticks);
    return events > 0 ? this.values[events - 1] : 0;
  }

  // The greatest of values[from], ..., values[to - 1].
  most(from, to) {
    let most = 0;
    for (let i = from; i < to;) {
      const whole = i % BLOCK === 0 && i + BLOCK <= to;
      most = Math.max(most, whole ? this.blocks[i / BLOCK] : this.values[i]);
      i += whole ? BLOCK : 1;
    }
    return most;
  }
}

// The (stage, micro-batch) pairs of a rank that are recomputed, as keys.
const recomputedIn = (layer, from, to) => {
  const keyOf = (i) => layer.stages[i] * 2 ** 32 + layer.microBatches[i];
  const recomputed = new Set();
  for (let i = from; i < to; ++i) if (layer.op(i) === OP.RECOMPUTE) recomputed.add(keyOf(i));
  return { recomputed, keyOf };
};

// Bytes that recomputation saves between F and RECOMPUTE.
const dropped = (stage, about) => {
  const whole = about.activationBytes[stage];
  return whole - Math.min(whole, about.checkpointBytes[stage] ?? 0);
};

const atStart = (layer, i, about, bytes) => {
  const op = layer.op(i);
  if (op === OP.RECOMPUTE && bytes) return dropped(layer.stages[i], about);
  if (op !== OP.F) return 0;
  return bytes ? about.activationBytes[layer.stages[i]] : 1;
};

const atEnd = (layer, i, about, bytes, recomputed) => {
  const op = layer.op(i);
  if (!bytes) return op === OP.B || op === OP.W ? 1 : 0;
  if (op === OP.F) return recomputed ? dropped(layer.stages[i], about) : 0;
  const whole = about.activationBytes[layer.stages[i]];
  const kept = about.weightGradBytes[layer.stages[i]] ?? 0;
  if (op === OP.B) return whole;
  if (op === OP.I) return whole - kept;
  return op === OP.W ? kept : 0;
};
