import { afterEach, expect, it, vi } from 'vitest';
import { Tabs } from './tabs';

const made: Tabs[] = [];
function tab(name: string) {
  const heard = { changes: 0, ids: [] as string[] };
  const tabs = new Tabs(name, () => (heard.changes += 1), (ids) => (heard.ids = [...ids]));
  made.push(tabs);
  return { tabs, heard };
}
afterEach(() => made.splice(0).forEach((one) => one.close()));

it('names the answers of all other tabs', async () => {
  const [a, b, c] = [tab('a'), tab('b'), tab('c')];
  a.tabs.writing(['1', '2']);
  b.tabs.writing(['3']);
  await vi.waitFor(() => expect(c.heard.ids).toEqual(['1', '2', '3']));
  await vi.waitFor(() => expect(a.heard.ids).toEqual(['3']));
  a.tabs.writing(['2']);
  await vi.waitFor(() => expect(c.heard.ids).toEqual(['2', '3']));
  b.tabs.changed();
  await vi.waitFor(() => expect([a.heard.changes, b.heard.changes, c.heard.changes]).toEqual([1, 0, 1]));
});

it('gives a new tab the answers that are being written', async () => {
  const a = tab('a');
  a.tabs.writing(['1']);
  const late = tab('late');
  await vi.waitFor(() => expect(late.heard.ids).toEqual(['1']));
});
