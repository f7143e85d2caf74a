// Cases of page.mjs for the views that watch the server: events, polls, and the memory of many models.
import assert from 'node:assert/strict';
import { MIB } from './front.mjs';
import { quiet, theme, until } from './steps.mjs';

export const watchingCases = ({ setting, control, front, open, shot, axe }) => ({
  async live(page) {
    // The views follow events, and do not poll while events come.
    const asked = [];
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    const n = (path) => asked.filter((one) => one === path).length;
    await open(page, setting.main, 'memory');
    await page.getByRole('heading', { name: 'Memory', exact: true }).waitFor();
    await until(page, () => n('/api/events') === 1 && n('/api/memory') >= 2, 'the view reads the state, and again with the events');
    await control('work');
    await page.getByRole('cell', { name: /writer/ }).waitFor();
    await page.getByText('Embedding passes, by their tokens').waitFor();
    await quiet(page, () => n('/api/memory'), 5000, 'the view does not poll');
    assert.equal(n('/api/events'), 1);
    await page.getByText('The latest embedding passes').click();
    await page.getByRole('region', { name: 'The latest embedding passes' }).getByRole('cell', { name: 'vectors:latest' }).first().waitFor();
    await page.goto(`${setting.main}/ui/#/requests`);
    await page.getByRole('cell', { name: '/api/generate' }).first().waitFor();
    const first = () => page.locator('tbody tr').first().getByRole('link').getAttribute('href');
    const newest = await first();
    await quiet(page, () => n('/api/trace'), 3000, 'the list does not poll');
    await control('work');
    await page.waitForFunction((old) => document.querySelector('tbody tr a')?.getAttribute('href') !== old, newest);
    // Other views have no stream.
    await page.goto(`${setting.main}/ui/#/settings`);
    await page.waitForFunction(async (url) => (await (await fetch(url)).text()).includes('billow_event_readers 0'), `${setting.main}/metrics`);
  },

  async polled(page) {
    // Without events, for example behind a proxy that refuses them, the views poll.
    page.allowsFailures = true;
    const server = await front(undefined, undefined, '', { '/api/events': (_body, response) => response.writeHead(404).end() });
    let n = 0;
    page.on('request', (request) => { if (request.url().endsWith('/api/history')) n += 1; });
    await open(page, server.url, 'memory');
    await page.locator('.uplot canvas').first().waitFor();
    const before = n;
    await until(page, () => n >= before + 3, 'the view polls three times');
    server.close();
  },

  async crowd(page) {
    // Seven models, evictions of all classes, and embedding passes.
    const now = Date.now();
    const names = ['llama3.2:3b', 'qwen3:8b', 'gemma3:4b', 'all-minilm:latest', 'phi4-mini:latest', 'bge-reranker:latest', 'smollm2:135m'];
    const row = (name, index) => ({ name, state: index === 6 ? 'loading' : 'ready', granted_bytes: 900 * MIB, held_bytes: (700 - 90 * index) * MIB, kv_in_use_bytes: 60 * MIB, kv_cached_bytes: 40 * MIB, resident_bytes: 650 * MIB, gpu_bytes: 0, running: index % 3, waiting: 0, ...(index === 6 ? { load_ratio: 0.4 } : {}) });
    const memory = { budget_bytes: 8192 * MIB, granted_bytes: 5000 * MIB, waiting: 0, models: names.map(row) };
    const samples = Array.from({ length: 120 }, (_, at) => {
      const held = Object.fromEntries(names.slice(0, 3 + Math.floor(at / 24)).map((name, index) => [name, (700 - 90 * index + 20 * Math.sin(at / 7 + index)) * MIB]));
      return [now - (119 - at) * 2000, at % 5, at % 2, 0.5, Object.values(held).reduce((sum, one) => sum + one, 0), at * 300, at * 40, held];
    });
    const evictions = [['kv_cached', 30], ['adapters', 90], ['model', 170]].map(([kind, ago], index) => ({ time: now - ago * 1000, model: names[index], class: kind, bytes: (index + 1) * 64 * MIB })).reverse();
    const passes = Array.from({ length: 90 }, (_, at) => [now - (90 - at) * 2300, 1 + (at % 7), 40 + ((at * 37) % 460), 3 + (at % 9), at % 3 ? names[3] : names[5]]);
    const send = (body) => (_asked, response) => { response.writeHead(200, { 'Content-Type': 'application/json' }); response.end(JSON.stringify(body)); };
    const server = await front(undefined, undefined, '', {
      '/api/memory': send(memory),
      '/api/history': send({ interval_ms: 2000, samples, evictions, passes }),
      '/api/events': (_asked, response) => {
        response.writeHead(200, { 'Content-Type': 'text/event-stream' });
        response.write(`event: memory\ndata: ${JSON.stringify(memory)}\n\n`);
        setTimeout(() => response.write(`event: eviction\ndata: ${JSON.stringify({ time: Date.now(), model: names[4], class: 'kv_cached', bytes: 5 * MIB })}\n\n`), 1200);
      },
    });
    await open(page, server.url, 'memory');
    await page.locator('.uplot canvas').nth(3).waitFor();
    const legend = page.locator('figure').filter({ hasText: 'Memory held by each model' }).locator('.u-series');
    assert.equal(await legend.count(), 8, 'the time and seven models');
    const dots = page.locator('figure').filter({ hasText: 'Embedding passes' }).locator('.u-series');
    assert.equal(await dots.count(), 3);
    const table = page.getByRole('region', { name: 'Evictions' });
    await table.getByRole('row', { name: /phi4-mini:latest cached context 5\.0 MiB/ }).waitFor();
    assert.equal(await table.locator('tbody tr').count(), 4);
    await table.getByRole('row', { name: /gemma3:4b the whole idle model 192 MiB/ }).waitFor();
    await table.getByRole('row', { name: /qwen3:8b adapters 128 MiB/ }).waitFor();
    await page.locator('.badge').getByText('loading 40 %').or(page.getByText('loading 40 %')).first().waitFor();
    await axe(page, 'memory of many models');
    await shot(page, 'memory-crowd', { width: 1280, height: 1900 });
    await shot(page, 'memory-crowd-phone', { width: 390, height: 2300 });
    await theme(page, 'dark');
    await axe(page, 'memory of many models, dark');
    await shot(page, 'memory-crowd-dark', { width: 1280, height: 1900 });
    server.close();
  },
});
