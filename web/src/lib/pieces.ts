// How many tokens an answer has so far. A piece of a stream may have several; events of the server
// say how many tokens the context holds at their moment, and what lies between is reckoned from that.
import type { LiveEvent } from './types';

export class TokenCount {
  prompt = 0;
  #pieces = 0;
  #piecesBefore = 0; // at the latest event
  #heldBefore = 0; // behind it; 0: there was none
  #writtenBefore = 0;
  #perPiece = 1;

  piece(): void {
    this.#pieces += 1;
  }

  event(event: LiveEvent): void {
    if (!event.tokens || this.prompt === 0) return;
    const written = event.tokens - (this.#heldBefore || this.prompt);
    const pieces = this.#pieces - this.#piecesBefore;
    if (written > 0 && pieces > 0) this.#perPiece = Math.max(1, written / pieces);
    this.#writtenBefore += Math.max(0, written);
    this.#piecesBefore = this.#pieces;
    this.#heldBefore = event.type === 'transition' ? event.tokens : (event.keep ?? event.tokens);
  }

  get perPiece(): number {
    return this.#perPiece;
  }
  get written(): number {
    return Math.round(this.#writtenBefore + this.#since());
  }
  // By the context, the prompt included.
  get held(): number {
    return Math.round((this.#heldBefore || this.prompt) + this.#since());
  }
  #since(): number {
    return (this.#pieces - this.#piecesBefore) * this.#perPiece;
  }
}
