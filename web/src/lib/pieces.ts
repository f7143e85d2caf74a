// Estimates the tokens of an answer so far. A piece of a stream can have several tokens. Events of
// the server contain the exact tokens in the context; between events, the count is extrapolated.
import type { LiveEvent } from './types';

export class TokenCount {
  prompt = 0;
  #pieces = 0;
  #piecesBefore = 0; // pieces at the latest event
  #heldBefore = 0; // tokens held after it; 0: no event yet
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
  // Tokens in the context, including the prompt.
  get held(): number {
    return Math.round((this.#heldBefore || this.prompt) + this.#since());
  }
  #since(): number {
    return (this.#pieces - this.#piecesBefore) * this.#perPiece;
  }
}
