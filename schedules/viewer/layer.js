// One set of bars: what was planned, or what was measured. An action is its index; those of rank r are
// [rowStart[r], rowStart[r + 1]), in order of time.

class Layer {
  constructor(about, buffer) {
    this.name = about.name;
    this.tick = about.tick;
    this.rowStart = [0];
    for (const count of about.counts) this.rowStart.push(this.rowStart.at(-1) + count);
    this.size = this.rowStart.at(-1);
    Object.assign(this, unpackActions(buffer, this.size));
    this.sumWork();
    this.measureDurations();
  }

  start(i) { return this.starts[i] * this.tick; }
  end(i) { return this.ends[i] * this.tick; }
  op(i) { return this.kinds[i] & OP_MASK; }
  actionName(i) { return actionName(this.op(i), this.stages[i], this.microBatches[i]); }
  actionWords(i) { return actionWords(this.op(i), this.stages[i], this.microBatches[i]); }
  lastEnd() { return this.ends.reduce((last, end) => Math.max(last, end), 0) * this.tick; }

  rankOf(i) {
    let low = 0;
    for (let high = this.rowStart.length - 1; high - low > 1;) {
      const middle = (low + high) >> 1;
      if (this.rowStart[middle] <= i) low = middle; else high = middle;
    }
    return low;
  }

  // The first action of a rank that ends after `ticks`, from `low` on.
  firstAfter(rank, ticks, low = this.rowStart[rank]) {
    const end = this.rowStart[rank + 1];
    let high = low;
    for (let step = 1; high < end && this.ends[high] <= ticks; step *= 2) { // gallop: it is usually near
      low = high + 1;
      high = Math.min(end, high + step);
    }
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ends[middle] <= ticks) low = middle + 1; else high = middle;
    }
    return low;
  }

  // The action of a rank at a time; the second half of a pair where `lower`. -1 in a bubble.
  at(rank, time, lower = false) {
    const ticks = time / this.tick;
    const i = this.firstAfter(rank, ticks);
    if (i >= this.rowStart[rank + 1] || this.starts[i] > ticks) return -1;
    return lower && this.kinds[i] & FIRST_HALF ? i + 1 : i;
  }

  // The mean duration of the shortest kind of action, and the shortest action of all; 0 where nothing takes time.
  measureDurations() {
    const [sums, counts] = [new Map(), new Map()];
    this.shortest = 0;
    for (let i = 0; i < this.size; ++i) {
      const took = this.end(i) - this.start(i);
      if (took <= 0) continue;
      sums.set(this.op(i), (sums.get(this.op(i)) ?? 0) + took);
      counts.set(this.op(i), (counts.get(this.op(i)) ?? 0) + 1);
      this.shortest = this.shortest > 0 ? Math.min(this.shortest, took) : took;
    }
    this.shortestKind = sums.size > 0 ? Math.min(...[...sums].map(([op, sum]) => sum / counts.get(op))) : 0;
  }

  // worked[slot][i]: prefix sums of the ticks that ops `slotOps[slot]` took in the actions before i, over all ranks; so
  // the share of any interval is a difference of two entries. Each half of a pair counts half of its time.
  sumWork() {
    this.slotOps = [...new Set(this.kinds.map((kind) => kind & OP_MASK))].sort((a, b) => a - b);
    this.worked = this.slotOps.map(() => new Float64Array(this.size + 1));
    for (let i = 0; i < this.size; ++i) {
      const share = (this.ends[i] - this.starts[i]) * (this.kinds[i] & PAIR ? 0.5 : 1);
      for (let slot = 0; slot < this.slotOps.length; ++slot) {
        this.worked[slot][i + 1] = this.worked[slot][i] + (this.op(i) === this.slotOps[slot] ? share : 0);
      }
    }
  }
}
