// The interval of time that is shown. All panels share it, so their axes are locked.

const ANIMATION_MS = 140;

class TimeView {
  constructor(whole, changed) {
    this.whole = whole > 0 ? whole : 1;
    this.changed = changed;
    this.from = 0;
    this.to = this.whole;
    this.least = 0; // the narrowest interval that is shown
  }

  // Of an interval that somebody asks for.
  clippedWidth(width) { return Math.min(this.whole, Math.max(width, this.least)); }

  // Shows [from, to], clipped to the whole run.
  show(from, to) {
    const width = this.clippedWidth(to - from);
    this.from = Math.min(Math.max(0, from), this.whole - width);
    this.to = this.from + width;
    this.changed();
  }

  // `factor` < 1 zooms in; the time `at` stays where it is.
  zoomed(factor, at = (this.from + this.to) / 2) {
    const width = this.clippedWidth((this.to - this.from) * factor);
    const part = (at - this.from) / (this.to - this.from);
    return [at - part * width, at + (1 - part) * width];
  }

  zoom(factor, at) { this.show(...this.zoomed(factor, at)); }
  pan(by) { this.show(this.from + by, this.to + by); }

  // Moves to [from, to] in a short animation, so that the eye can follow.
  glide([from, to]) {
    const width = this.clippedWidth(to - from);
    const left = Math.min(Math.max(0, from), this.whole - width);
    if (matchMedia('(prefers-reduced-motion: reduce)').matches) { this.show(left, left + width); return; }
    const [from0, to0, begin] = [this.from, this.to, performance.now()];
    const step = (now) => {
      if (this.gliding !== step) return; // a newer animation or the user has taken over
      const part = Math.min(1, Math.max(0, now - begin) / ANIMATION_MS);
      const eased = part * (2 - part);
      this.show(from0 + (left - from0) * eased, to0 + (left + width - to0) * eased);
      if (part < 1) requestAnimationFrame(step); else this.gliding = null;
    };
    this.gliding = step;
    requestAnimationFrame(step);
  }

  // Stops an animation when the user moves the view.
  hold() { this.gliding = null; }
}
