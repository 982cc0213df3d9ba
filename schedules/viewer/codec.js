'use strict';
// Reads the data of the page: a description as JSON, and the actions as base64 (schedules/render/pack_actions.h).

const readElement = (id) => {
  const element = document.getElementById(id);
  const text = element.textContent;
  element.remove(); // tens of megabytes, which are not needed a second time
  return text;
};

const decodeBase64 = (text) => {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes.buffer;
};

// The columns of `count` packed actions: typed arrays over one buffer, without copies.
const unpackActions = (buffer, count) => ({
  starts: new Uint32Array(buffer, 0, count),
  ends: new Uint32Array(buffer, 4 * count, count),
  microBatches: new Int32Array(buffer, 8 * count, count),
  stages: new Uint16Array(buffer, 12 * count, count),
  kinds: new Uint8Array(buffer, 14 * count, count),
});

// Bits of a kind.
const OP_MASK = 15;
const FIRST_HALF = 16;
const SECOND_HALF = 32;
const PAIR = FIRST_HALF | SECOND_HALF;
const CRITICAL = 64;
