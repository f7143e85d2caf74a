// Incremental SHA-256. crypto.subtle takes only whole buffers, and does not exist over plain http.
const K = new Uint32Array(64);
const FIRST = new Uint32Array(8);
{
  // The first 32 bits of the fractional parts of cube and square roots of the primes.
  let n = 0;
  for (let candidate = 2; n < 64; candidate += 1) {
    let isPrime = true;
    for (let factor = 2; factor * factor <= candidate; factor += 1) if (candidate % factor === 0) isPrime = false;
    if (!isPrime) continue;
    if (n < 8) FIRST[n] = fraction(candidate ** (1 / 2));
    K[n] = fraction(Math.cbrt(candidate));
    n += 1;
  }
}

function fraction(x: number): number {
  return Math.floor((x - Math.floor(x)) * 4294967296);
}

export class Sha256 {
  #state = FIRST.slice();
  #block = new Uint8Array(64);
  #nBlock = 0;
  #nBytes = 0;
  #w = new Uint32Array(64);

  update(bytes: Uint8Array): void {
    this.#nBytes += bytes.length;
    let at = 0;
    if (this.#nBlock > 0) {
      const n = Math.min(64 - this.#nBlock, bytes.length);
      this.#block.set(bytes.subarray(0, n), this.#nBlock);
      this.#nBlock += n;
      at = n;
      if (this.#nBlock < 64) return;
      this.#mix(this.#block, 0);
      this.#nBlock = 0;
    }
    for (; at + 64 <= bytes.length; at += 64) this.#mix(bytes, at);
    this.#block.set(bytes.subarray(at));
    this.#nBlock = bytes.length - at;
  }

  // Returns the digest. update() must not be called after it.
  hex(): string {
    const nBits = this.#nBytes * 8;
    const end = new Uint8Array(((this.#nBlock < 56 ? 56 : 120) - this.#nBlock) + 8);
    end[0] = 0x80;
    const view = new DataView(end.buffer);
    view.setUint32(end.length - 8, Math.floor(nBits / 4294967296));
    view.setUint32(end.length - 4, nBits >>> 0);
    this.update(end);
    return Array.from(this.#state, (word) => word.toString(16).padStart(8, '0')).join('');
  }

  #mix(bytes: Uint8Array, at: number): void {
    const w = this.#w;
    const get = (array: Uint32Array, index: number) => array[index] as number;
    for (let i = 0; i < 16; i += 1) {
      const j = at + i * 4;
      w[i] = ((bytes[j] as number) << 24) | ((bytes[j + 1] as number) << 16) | ((bytes[j + 2] as number) << 8) | (bytes[j + 3] as number);
    }
    for (let i = 16; i < 64; i += 1) {
      const x = get(w, i - 15);
      const y = get(w, i - 2);
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = get(w, i - 16) + s0 + get(w, i - 7) + s1;
    }
    let [a, b, c, d, e, f, g, h] = this.#state as unknown as [number, number, number, number, number, number, number, number];
    for (let i = 0; i < 64; i += 1) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + get(K, i) + get(w, i)) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g; g = f; f = e; e = (d + t1) | 0; d = c; c = b; b = a; a = (t1 + t2) | 0;
    }
    const s = this.#state;
    [a, b, c, d, e, f, g, h].forEach((word, index) => (s[index] = get(s, index) + word));
  }
}
