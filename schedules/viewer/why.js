// Finds why an action started when it did: the action before it on its rank, and the one whose result it needed.

class Reasons {
  // `real`: the layer is of a real run, not of a simulation.
  constructor(layer, real, { stages, modelStages, microBatches }) {
    this.layer = layer;
    this.real = real;
    this.modelStages = modelStages; // of one copy of the model; data never pass between copies
    this.microBatches = microBatches;
    const cells = stages * microBatches;
    this.forward = new Int32Array(cells).fill(-1);
    this.gradient = new Int32Array(cells).fill(-1); // the action B or I
    for (let i = 0; i < layer.size; ++i) {
      const op = layer.op(i);
      const cell = this.cell(layer.stages[i], layer.microBatches[i]);
      if (op === OP.F) this.forward[cell] = i;
      if (op === OP.B || op === OP.I) this.gradient[cell] = i;
    }
  }

  cell(stage, microBatch) { return stage * this.microBatches + microBatch; }

  // The same action in `other`, the reasons of another layer; -1 where it has none.
  sameIn(other, i) {
    const { layer } = this;
    const op = layer.op(i);
    const cell = this.cell(layer.stages[i], layer.microBatches[i]);
    if (op === OP.F) return other.forward[cell] ?? -1;
    if (op === OP.B || op === OP.I) return other.gradient[cell] ?? -1;
    const rank = layer.rankOf(i);
    const find = other.layer;
    for (let k = find.rowStart[rank]; k < find.rowStart[rank + 1]; ++k) {
      if (find.op(k) === op && find.stages[k] === layer.stages[i] && find.microBatches[k] === layer.microBatches[i]) return k;
    }
    return -1;
  }

  // F(s, b) needs F(s - 1, b); B or I(s, b) needs B or I(s + 1, b). -1: nothing from another stage.
  producer(i) {
    const { layer } = this;
    const stage = layer.stages[i];
    const microBatch = layer.microBatches[i];
    const op = layer.op(i);
    if (op === OP.F && stage % this.modelStages > 0) return this.forward[this.cell(stage - 1, microBatch)];
    if ((op === OP.B || op === OP.I) && (stage + 1) % this.modelStages > 0) return this.gradient[this.cell(stage + 1, microBatch)];
    return -1;
  }

  // Both halves of a pair start together, when the later of their producers has arrived.
  latestProducer(i) {
    const { kinds, ends } = this.layer;
    const other = kinds[i] & FIRST_HALF ? i + 1 : kinds[i] & SECOND_HALF ? i - 1 : i;
    const [a, b] = [this.producer(i), this.producer(other)];
    return b >= 0 && (a < 0 || ends[b] > ends[a]) ? b : a;
  }

  // The action before action i (and its pair) on its rank; -1 where i is the first.
  previous(i) {
    const first = this.layer.kinds[i] & SECOND_HALF ? i - 1 : i;
    return first > this.layer.rowStart[this.layer.rankOf(i)] ? first - 1 : -1;
  }

  // {previous, idle, producer, message, waited}: the rank was idle for `idle` ticks before i. `message` is the time
  // from the end of i's producer to the start of i. If `waited` is true, the message took that long: the rank had
  // nothing else to do. (A simulated rank is never idle for another reason; a real run loses time elsewhere too.)
  explain(i) {
    const { starts, ends } = this.layer;
    const previous = this.previous(i);
    const idle = starts[i] - (previous < 0 ? 0 : ends[previous]);
    const producer = this.latestProducer(i);
    if (producer < 0) return { previous, idle, producer, message: 0, waited: false };
    const waited = idle > 0 && (!this.real || previous < 0 || ends[producer] >= ends[previous]);
    return { previous, idle, producer, message: starts[i] - ends[producer], waited };
  }
}
