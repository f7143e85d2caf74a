// What a request, or a load, would need: asks POST /api/plan and words the response.
import { Failure, isAbort, json } from './api';
import { count, size } from './format';
import { say } from './language';
import type { Plan } from './types';

export type Body = Record<string, unknown>;

// A plan of one model, or the reason why there is none.
export interface Outcome {
  model: string;
  plan?: Plan;
  error?: string;
}

const DELAY_MS = 500;
const MAX_CHARACTERS = 4 << 20; // of all bodies: large images are sent only once, with the request

export function askPlan(body: Body, signal: AbortSignal): Promise<Plan> {
  return json<Plan>('POST', '/api/plan', body, { signal });
}

// Plans a request while the user types. Waits until the user pauses, plans only a changed request,
// and aborts a plan that a change makes stale.
export class Planner {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stop: AbortController | undefined;
  #shown = ''; // the bodies whose outcomes are shown

  constructor(
    private readonly show: (outcomes: Outcome[]) => void,
    private readonly ask = askPlan,
  ) {}

  // `make` returns a body for each model. It is called after the pause. If it throws, nothing is
  // planned.
  change(make: () => Body[]): void {
    this.#cancel();
    this.#timer = setTimeout(() => void this.#plan(make), DELAY_MS);
  }

  // Removes the outcomes. Also for the end of the component.
  clear(): void {
    this.#cancel();
    this.#shown = '';
    this.show([]);
  }

  #cancel(): void {
    clearTimeout(this.#timer);
    this.#stop?.abort();
  }

  async #plan(make: () => Body[]): Promise<void> {
    let bodies: Body[];
    try {
      bodies = make();
    } catch {
      return this.clear(); // an option is not JSON; sending shows the error
    }
    const key = JSON.stringify(bodies);
    if (key === this.#shown) return;
    if (key.length > MAX_CHARACTERS) {
      this.#shown = key;
      return this.show([{ model: '', error: say.plan.tooLarge }]);
    }
    const stop = new AbortController();
    this.#stop = stop;
    const outcomes = await Promise.all(bodies.map((body) => this.#one(body, stop.signal)));
    if (stop.signal.aborted) return;
    this.#shown = key;
    this.show(outcomes.filter((one) => one.plan || one.error));
  }

  // Returns the error of a request that the server would refuse. Other errors are no news about the
  // request: then there is neither a plan nor an error.
  async #one(body: Body, signal: AbortSignal): Promise<Outcome> {
    const model = String(body['model'] ?? '');
    try {
      return { model, plan: await this.ask(body, signal) };
    } catch (error) {
      const isRefused = !isAbort(error) && error instanceof Failure && error.status === 400;
      return isRefused ? { model, error: say.plan.refused(error.message) } : { model };
    }
  }
}

// Returns the line of a plan for the composer, and its warnings.
export function requestWords(plan: Plan): { facts: string[]; warnings: string[] } {
  const { memory, prompt_tokens: prompt = 0, prompt_tokens_full: full = prompt, context = 0, max_context: limit = context } = plan;
  const facts = [say.plan.prompt(count(prompt))];
  if (context > 0) facts.push(limit > context ? say.plan.contextOf(count(context), count(limit)) : say.plan.context(count(context)));
  facts.push(plan.loaded ? say.plan.kv(size(memory.kv_bytes)) : say.plan.load(size(memory.total_bytes)));
  if (!plan.loaded && memory.fits && memory.total_bytes > memory.free_bytes) facts.push(say.plan.evicts);
  const warnings: string[] = [];
  if (full > prompt) warnings.push(say.plan.leftOut(count(full), count(prompt)));
  if (!memory.fits) warnings.push(say.plan.noFit(size(memory.total_bytes), size(memory.budget_bytes)));
  return { facts, warnings };
}

// Returns the line of a plan for a model that is not loaded. `free` and `budget` are in bytes and
// newer than the plan. `fit`: "no" if the budget is too small, "tight" if other models must be
// unloaded.
export function loadWords(plan: Plan, free: number, budget: number): { facts: string[]; fit: 'yes' | 'tight' | 'no' } {
  const { weights_bytes: weights, scratch_bytes: scratch, kv_bytes: kv, total_bytes: total } = plan.memory;
  const facts = [say.plan.weights(size(weights))];
  if (kv > 0) facts.push(say.plan.firstContext(size(kv)));
  if (scratch > 0) facts.push(say.plan.scratch(size(scratch)));
  facts.push(say.plan.total(size(total), size(free), size(budget)));
  return { facts, fit: total > budget ? 'no' : total > free ? 'tight' : 'yes' };
}
