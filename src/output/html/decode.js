/* Reads what page.c and encode.c wrote, in the same order. */
"use strict";
window.opgap = {};
(function (opgap) {
  const utf8 = new TextDecoder();

  class Reader {
    constructor(bytes) {
      this.bytes = bytes;
      this.at = 0;
    }
    number() {
      let value = 0, scale = 1, byte;
      do {
        byte = this.bytes[this.at++];
        value += (byte & 127) * scale;
        scale *= 128;
      } while (byte > 127);
      return value;
    }
    slice(count) {
      this.at += count;
      return this.bytes.subarray(this.at - count, this.at);
    }
    text() {
      return utf8.decode(this.slice(this.number()));
    }
    numbers(count, array) {
      for (let i = 0; i < count; i++)
        array[i] = this.number();
      return array;
    }
    list(one) {
      const list = [], count = this.number();
      for (let i = 0; i < count; i++)
        list.push(one(i));
      return list;
    }
  }

  async function inflate(base64) {
    const packed = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  const SPAN_KINDS = ["op", "range", "free range", "call", "cuda", "kernel", "memcpy", "memset", "sync", "overhead"];
  const TRACK_KINDS = ["thread", "ranges", "gpu"];
  const OP_KINDS = ["torch", "range", "call", "kernel", "memcpy", "memset"];
  const ROLES = ["trainer", "DataLoader worker", "other", "program"];
  const NONE = 4294967295;

  /* Levels of a lane, the finest first: share of 255 and entry of each bin. */
  function readLane(r, bins, levels) {
    const lane = [];
    for (let level = 0, count = bins; level < levels; level++, count = Math.floor(count / 4)) {
      const share = r.slice(count).slice(), entry = new Uint32Array(count);
      for (let i = 0, last = 0; i < count; i++)
        if (share[i] > 0) {
          const code = r.number();
          last = code ? code - 1 : last;
          entry[i] = last;
        }
      lane.push({ share, entry });
    }
    return lane;
  }

  function readTrack(r, bins, levels) {
    const known = v => v === NONE ? null : v;
    const track = { kind: TRACK_KINDS[r.number()], process: r.number(), tid: r.number(), device: known(r.number()),
      context: known(r.number()), stream: known(r.number()), lanes: r.number(), ns: r.number(), spans: r.number(),
      name: r.text(), bins: [] };
    const lanes = r.number();
    for (let lane = 0; lane < 4; lane++)
      track.bins.push(lanes >> lane & 1 ? readLane(r, bins, levels) : null);
    return track;
  }

  function readRun(r) {
    const run = { track: r.number(), lane: r.number(), count: r.number() };
    run.start = new Float64Array(run.count);
    run.end = new Float64Array(run.count);
    for (let i = 0, at = 0; i < run.count; i++) {
      run.start[i] = at + r.number();
      at = run.end[i] = run.start[i] + r.number();
    }
    run.entry = r.numbers(run.count, new Uint32Array(run.count));
    run.path = r.numbers(run.count, new Uint32Array(run.count));
    run.bytes = r.numbers(run.count, new Float64Array(run.count));
    run.unfinished = r.numbers(run.count, new Uint8Array(run.count));
    return run;
  }

  function readSet(r) {
    const set = { from: r.number(), to: r.number(), min: r.number(), leftOut: r.number(), label: r.text() };
    set.runs = r.list(() => readRun(r));
    set.count = set.runs.reduce((sum, run) => sum + run.count, 0);
    return set;
  }

  function readFlame(r, texts) {
    const flame = { leftOut: r.number() };
    flame.nodes = r.list(i => {
      const back = r.number();
      return { parent: back ? i - back : -1, name: texts[r.number()], kind: OP_KINDS[r.number()], role: ROLES[r.number()],
        calls: r.number(), self: r.number(), total: r.number(), selfGpu: r.number(), totalGpu: r.number() };
    });
    return flame;
  }

  opgap.decode = async function (base64) {
    const r = new Reader(await inflate(base64)), data = {};
    data.version = r.text();
    data.steps = r.number();
    data.stepsPerPoint = r.number();
    data.counts = { hot_ops: r.number(), calls: r.number(), files: r.number(), locks: r.number() };
    data.report = JSON.parse(utf8.decode(r.slice(r.number())));
    data.texts = r.list(() => r.text());
    data.duration = r.number();
    data.spans = r.number();
    data.tooDeep = r.number();
    data.tracksLeftOut = r.number();
    data.bins = r.number();
    data.levels = r.number();
    data.entries = r.list(() => ({ kind: SPAN_KINDS[r.number()], name: data.texts[r.number()] }));
    data.tracks = r.list(() => readTrack(r, data.bins, data.levels));
    data.sets = r.list(() => readSet(r));
    data.flame = readFlame(r, data.texts);
    return data;
  };
})(window.opgap);
