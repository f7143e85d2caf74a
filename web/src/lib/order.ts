// Shows values in the order in which they were asked for. Responses can arrive in another order, and
// an event is newer than a response that was requested before it.
export class InOrder<T> {
  #nAsked = 0;
  #shown = 0; // number of the value that is shown

  constructor(private readonly show: (value: T) => void) {}

  // Call this before the request, and the returned function with its response. A response is dropped
  // if a later value is shown.
  ask(): (value: T) => void {
    const number = (this.#nAsked += 1);
    return (value) => {
      if (number < this.#shown) return;
      this.#shown = number;
      this.show(value);
    };
  }
  // Shows a value that is the newest now.
  now = (value: T): void => this.ask()(value);
}
