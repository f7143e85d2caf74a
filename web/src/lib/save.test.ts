import { expect, it } from 'vitest';
import { fileName } from './save';

it('keeps the extension of a long name', () => {
  expect(fileName(`${'x'.repeat(200)}.jsonl`)).toBe(`${'x'.repeat(80)}.jsonl`);
  expect(fileName(`v1.5 ${'x'.repeat(200)}.trace.json`)).toMatch(/^v1\.5 x+\.json$/);
  expect(fileName('a/b: "c".md')).toBe('a_b_ _c_.md');
});

it('does not cut a character in half', () => {
  expect(fileName(`${'x'.repeat(79)}\u{20000}\u{20001}.md`)).toBe(`${'x'.repeat(79)}\u{20000}.md`);
});
