import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Failure } from './api';
import { Planner, loadWords, requestWords, type Body, type Outcome } from './plan';
import type { Plan } from './types';

const MIB = 1 << 20;
const memory = { weights_bytes: 100 * MIB, scratch_bytes: 20 * MIB, kv_bytes: 5 * MIB, total_bytes: 125 * MIB, budget_bytes: 1000 * MIB, free_bytes: 500 * MIB, fits: true };
const plan: Plan = { model: 'm', loaded: true, prompt_tokens: 1515, prompt_tokens_full: 1515, context: 4096, max_context: 8192, memory };

describe('the words of a plan', () => {
  it('give tokens, context and memory', () => {
    expect(requestWords(plan)).toEqual({ facts: ['1,515 tokens of prompt', 'context 4,096 of at most 8,192', '5.0 MiB of memory for the context'], warnings: [] });
    expect(requestWords({ ...plan, context: 8192 }).facts[1]).toBe('context 8,192');
    expect(requestWords({ ...plan, loaded: false }).facts[2]).toBe('loads the model: 125 MiB of memory');
  });
  it('say when idle models are unloaded first', () => {
    const full = { ...memory, free_bytes: 100 * MIB };
    expect(requestWords({ ...plan, loaded: false, memory: full }).facts[3]).toBe('idle models are unloaded first');
    expect(requestWords({ ...plan, memory: full }).facts).toHaveLength(3);
  });
  it('warn of messages that are left out, and of too little memory', () => {
    const { warnings } = requestWords({ ...plan, prompt_tokens_full: 9211, memory: { ...memory, fits: false, budget_bytes: 64 * MIB } });
    expect(warnings).toEqual(['The oldest messages will be left out: 9,211 tokens become 1,515.', 'This does not fit in memory: it needs 125 MiB, and the budget is 64.0 MiB.']);
  });
  it('compare a load with the memory of this moment', () => {
    expect(loadWords(plan, 500 * MIB, 1000 * MIB)).toEqual({ facts: ['weights 100 MiB', 'first context 5.0 MiB', 'work space 20.0 MiB', 'total 125 MiB, free 500 MiB of 1000 MiB'], fit: 'yes' });
    expect(loadWords(plan, 124 * MIB, 1000 * MIB).fit).toBe('tight');
    expect(loadWords(plan, 0, 124 * MIB).fit).toBe('no');
    expect(loadWords({ ...plan, memory: { ...memory, kv_bytes: 0 } }, 0, 1).facts).toHaveLength(3);
  });
});

describe('a plan while the user types', () => {
  let asked: { body: Body; signal: AbortSignal; answer: (plan: Plan) => void; fail: (error: unknown) => void }[] = [];
  let shown: Outcome[][] = [];
  let planner: Planner;
  const draft = (text: string) => () => [{ model: 'm', messages: [text] }];
  const settle = () => vi.advanceTimersByTimeAsync(0);
  beforeEach(() => {
    vi.useFakeTimers();
    asked = [];
    shown = [];
    planner = new Planner(
      (outcomes) => shown.push(outcomes),
      (body, signal) => new Promise((answer, fail) => {
        asked.push({ body, signal, answer, fail });
        signal.addEventListener('abort', () => fail(new DOMException('', 'AbortError')));
      }),
    );
  });
  afterEach(() => { vi.useRealTimers(); });

  it('waits until the user pauses', async () => {
    for (const text of ['a', 'ab', 'abc']) {
      planner.change(draft(text));
      await vi.advanceTimersByTimeAsync(400);
    }
    expect(asked).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(100);
    expect(asked.map((one) => one.body['messages'])).toEqual([['abc']]);
    asked[0]!.answer(plan);
    await settle();
    expect(shown).toEqual([[{ model: 'm', plan }]]);
  });
  it('does not plan the same request again', async () => {
    for (let i = 0; i < 3; i += 1) {
      planner.change(draft('a'));
      await vi.advanceTimersByTimeAsync(500);
      asked[0]!.answer(plan);
      await settle();
    }
    expect([asked.length, shown.length]).toEqual([1, 1]);
    planner.clear();
    planner.change(draft('a'));
    await vi.advanceTimersByTimeAsync(500);
    expect(asked).toHaveLength(2);
  });
  it('aborts a stale plan and ignores its response', async () => {
    planner.change(draft('a'));
    await vi.advanceTimersByTimeAsync(500);
    planner.change(draft('b'));
    expect(asked[0]!.signal.aborted).toBe(true);
    asked[0]!.answer(plan);
    await vi.advanceTimersByTimeAsync(500);
    expect(shown).toEqual([]);
    asked[1]!.answer({ ...plan, prompt_tokens: 7 });
    await settle();
    expect(shown).toHaveLength(1);
    expect(shown[0]![0]!.plan!.prompt_tokens).toBe(7);
  });
  it('shows the reason of a refused request, and nothing for other errors', async () => {
    planner.change(() => [{ model: 'a' }, { model: 'b' }, { model: 'c' }]);
    await vi.advanceTimersByTimeAsync(500);
    asked[0]!.fail(new Failure(400, 'too long'));
    asked[1]!.fail(new Failure(503, 'busy'));
    asked[2]!.answer(plan);
    await settle();
    expect(shown).toEqual([[{ model: 'a', error: 'The server would refuse this request: too long' }, { model: 'c', plan }]]);
  });
  it('sends neither huge nor broken requests', async () => {
    planner.change(draft('x'.repeat(5 << 20)));
    await vi.advanceTimersByTimeAsync(500);
    expect(shown.pop()).toEqual([{ model: '', error: 'The images are too large for a plan before sending.' }]);
    planner.change(() => { throw new SyntaxError('no JSON'); });
    await vi.advanceTimersByTimeAsync(500);
    expect(shown.pop()).toEqual([]);
    expect(asked).toHaveLength(0);
  });
});
