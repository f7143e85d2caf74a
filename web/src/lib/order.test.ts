import { expect, it } from 'vitest';
import { InOrder } from './order';

it('drops a response that is older than what is shown', () => {
  const shown: string[] = [];
  const order = new InOrder<string>((value) => shown.push(value));
  const [first, second] = [order.ask(), order.ask()];
  second('second');
  first('first');
  const third = order.ask();
  order.now('event');
  third('third');
  order.ask()('fourth');
  expect(shown).toEqual(['second', 'event', 'fourth']);
});
