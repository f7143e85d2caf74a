// Cases of page.mjs for plans, the waterfall, imports from other programs, wrong addresses, the first
// paint, and the queue.
import assert from 'node:assert/strict';
import { HOSTILE, MIB, planned, telling } from './front.mjs';
import { ask, theme, until } from './steps.mjs';

const PHONE = { width: 390, height: 844 };

// A node of ChatGPT's mapping.
const node = (parent, role, parts, more = {}) => ({ parent, message: { author: { role }, content: { content_type: 'text', parts }, create_time: 1700000000, ...more } });

async function importFile(page, name, text) {
  await page.locator('input[type=file]').setInputFiles({ name, mimeType: 'application/json', buffer: Buffer.from(text) });
}

export const viewCases = ({ setting, control, front, open, shot, axe }) => ({
  async labels(page) {
    // Vectors and scores belong to the texts that were sent, even if the field has changed.
    let send;
    const hold = (reply) => (asked, response) => {
      send = () => {
        response.writeHead(200, { 'Content-Type': 'application/json' });
        response.end(JSON.stringify(reply(asked)));
      };
    };
    const server = await front(undefined, undefined, '', {
      '/api/embed': hold((asked) => ({ embeddings: asked.input.map((_, index) => [1, index]) })),
      '/v1/rerank': hold((asked) => ({ results: asked.documents.map((_, index) => ({ index, relevance_score: 0.5 })) })),
    });
    await open(page, server.url, 'embeddings');
    const texts = page.getByLabel('Texts, one per line');
    for (const [name, cells] of [['Compare', '.heat th[scope=row]'], ['Rank the texts', 'tbody td:last-child']]) {
      if (name !== 'Compare') await page.getByRole('button', { name: 'Rerank' }).click();
      await texts.fill('old one\nold two');
      send = undefined;
      await page.getByRole('button', { name }).click();
      while (!send) await page.waitForTimeout(20);
      await texts.fill('new one\nnew two\nnew three');
      send();
      await page.locator(cells).nth(1).waitFor();
      assert.deepEqual((await page.locator(cells).allInnerTexts()).map((text) => text.replace(/^\d\. /, '')), ['old one', 'old two']);
    }
    server.close();
  },

  async late(page) {
    // A trace that is found to be missing after another one was opened does not hide that one.
    page.allowsFailures = true;
    let refuse;
    const server = await front(undefined, undefined, '', {
      '/api/trace/first': (_asked, response) => { refuse = () => response.writeHead(404).end('{"error":"no trace"}'); },
      '/api/trace/second': (_asked, response) => {
        response.writeHead(200, { 'Content-Type': 'application/json' });
        response.end(JSON.stringify({ id: 'second', route: '/api/chat', began_at: new Date().toISOString(), duration: 5e6, status: 200, spans: [{ name: 'sized', begin: 0, end: 1e6 }] }));
      },
    });
    await open(page, server.url, 'requests/first');
    while (!refuse) await page.waitForTimeout(20);
    await page.goto(`${server.url}/ui/#/requests/second`);
    await page.getByRole('cell', { name: 'sized' }).waitFor();
    refuse();
    await page.waitForTimeout(500);
    assert.equal(await page.getByText('This trace no longer exists').count(), 0);
    server.close();
  },

  async plan(page) {
    // The real server plans what the user has typed. On a slow machine, it also plans a part of it: the
    // unit tests of Planner show that a plan waits for a pause.
    const asked = [];
    page.on('request', (request) => { if (request.url().endsWith('/api/plan')) asked.push(request.postDataJSON()); });
    await open(page, setting.main);
    await page.locator('#composer').pressSequentially('1 2 3 4 5', { delay: 30 });
    await until(page, () => asked.at(-1)?.messages?.[0]?.content === '1 2 3 4 5', 'the plan of the whole text');
    const line = page.locator('.plan');
    await line.getByText(/\d+ tokens of prompt · context [\d,]+/).waitFor();
    assert.deepEqual(asked.at(-1).messages, [{ role: 'user', content: '1 2 3 4 5' }]);
    assert.equal(asked.at(-1).model, 'writer:latest');
    const before = Number((await line.innerText()).match(/([\d,]+) tokens/)[1].replace(',', ''));
    await axe(page, 'plan of a request');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Again' }).waitFor();
    assert.equal(await line.innerText(), '');
    // The next request has the whole conversation, and the model is loaded.
    const n = asked.length;
    await page.locator('#composer').fill('6 7 8');
    await line.getByText(/tokens of prompt · context .* of memory for the context/).waitFor();
    assert.ok(Number((await line.innerText()).match(/([\d,]+) tokens/)[1].replace(',', '')) > before);
    assert.ok(asked.length > n && asked.length <= n + 2, `${asked.length - n} plans`); // a new list of the models may abort the first one
    assert.equal(asked.at(-1).messages.length, 3);
    await page.locator('#composer').fill('');
    await page.waitForFunction(() => document.querySelector('.plan').innerText === '');
    // A conversation that is too long for the model.
    await page.goto(`${setting.main}/ui/#/settings`);
    const rows = [{ kind: 'billow-chats', version: 1 }, { chat: { id: 'c', title: 'A long one', models: ['writer:latest'], leaf: 'm399' } }];
    for (let i = 0; i < 400; i += 1) rows.push({ message: { id: `m${i}`, chat: 'c', parent: i ? `m${i - 1}` : '', role: i % 2 ? 'assistant' : 'user', text: '1 2 3 4 5 6 7 8 9 '.repeat(20), created: i } });
    await importFile(page, 'x.jsonl', rows.map((row) => JSON.stringify(row)).join('\n'));
    await page.locator('nav').getByText('A long one').click();
    await page.locator('#composer').fill('1 2 3');
    await line.getByText(/The oldest messages will be left out: [\d,]+ tokens become [\d,]+\./).waitFor();
    await shot(page, 'plan');
  },

  async warnings(page) {
    const answers = [planned({ prompt_tokens_full: 9211 }), planned({ loaded: false }, { fits: false, total_bytes: 900 * MIB })];
    const server = await front(telling('Yes.'), undefined, '', {
      '/api/plan': (asked, response) => {
        const isOther = asked.model === 'other:latest';
        response.writeHead(200, { 'Content-Type': 'application/json' });
        response.end(JSON.stringify(answers[isOther ? 1 : 0]));
      },
      '/api/memory': (_asked, response) => {
        response.writeHead(200, { 'Content-Type': 'application/json' });
        response.end(JSON.stringify({ budget_bytes: 500 * MIB, granted_bytes: 450 * MIB, waiting: 0, models: [] }));
      },
      '/api/events': (_asked, response) => response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(': \n\n'),
    });
    await open(page, server.url);
    await page.getByRole('button', { name: 'Compare with more models' }).click();
    await page.locator('.pickers select').nth(1).selectOption('other:latest');
    await page.locator('#composer').fill('Hello');
    await page.getByText('The oldest messages will be left out: 9,211 tokens become 7,150.').first().waitFor();
    await page.getByText('This does not fit in memory: it needs 900 MiB, and the budget is 500 MiB.').first().waitFor();
    assert.match(await page.getByRole('status').innerText(), /left out.*does not fit/);
    await axe(page, 'warnings of a plan');
    await shot(page, 'plan-phone', PHONE);
    await theme(page, 'dark');
    await axe(page, 'warnings of a plan, dark');
    await page.goto(`${server.url}/ui/#/models`);
    await page.getByText('does not fit', { exact: true }).waitFor();
    await page.getByText('fits after idle models are unloaded', { exact: true }).first().waitFor();
    await axe(page, 'a model that does not fit, dark');
    await theme(page, 'light');
    await axe(page, 'a model that does not fit');
    server.close();
  },

  async waterfall(page) {
    await open(page, setting.main);
    await ask(page, '1 2 3');
    await page.getByRole('link', { name: 'Trace' }).click();
    const table = page.getByRole('region', { name: 'What the server did, and when' });
    await table.getByRole('cell', { name: 'sized' }).waitFor();
    await page.getByText(/ · 200 · /).waitFor(); // the trace has ended: its duration and the scale stay
    const scale = () => table.locator('.scale').innerText();
    const n = await table.locator('tbody tr').count();
    const whole = await scale();
    // The keys zoom and move; the table keeps its rows.
    await table.focus();
    for (const key of ['+', '+', '+', '+']) await page.keyboard.press(key);
    const near = await scale();
    assert.notEqual(near, whole);
    await page.keyboard.press('ArrowLeft');
    const left = await scale();
    assert.notEqual(left, near);
    await page.keyboard.press('ArrowRight');
    assert.equal(await scale(), near);
    assert.equal(await table.locator('tbody tr').count(), n);
    await axe(page, 'a zoomed waterfall');
    await shot(page, 'waterfall-zoomed');
    await shot(page, 'waterfall-phone', PHONE);
    await page.keyboard.press('-');
    await page.keyboard.press('0');
    assert.equal(await scale(), whole);
    // The wheel zooms over the scale, and over the bars with Ctrl only.
    await table.locator('.scale').hover();
    await page.mouse.wheel(0, -300);
    await page.waitForFunction((old) => document.querySelector('.scale').innerText !== old, whole);
    await page.getByRole('button', { name: 'Show everything' }).click();
    await table.locator('tbody .track').first().hover();
    await page.mouse.wheel(0, -300);
    await page.waitForTimeout(100);
    assert.equal(await scale(), whole);
    await page.keyboard.down('Control');
    await page.mouse.wheel(0, -300);
    await page.keyboard.up('Control');
    await page.waitForFunction((old) => document.querySelector('.scale').innerText !== old, whole);
    const wheeled = await scale();
    await page.mouse.wheel(40, 0);
    await page.waitForFunction((old) => document.querySelector('.scale').innerText !== old, wheeled);
    // Buttons, for fingers.
    await page.getByRole('button', { name: 'Zoom in' }).click();
    await page.getByRole('button', { name: 'Earlier' }).click();
    await page.getByRole('button', { name: 'Zoom out' }).click();
    await page.getByRole('button', { name: 'Show everything' }).click();
    assert.equal(await scale(), whole);
    assert.equal(await page.getByRole('button', { name: 'Show everything' }).isDisabled(), true);
    // The filters.
    await page.getByLabel('Filter by name').fill('SIZ');
    assert.equal(await table.locator('tbody tr').count(), 1);
    await page.getByText(/^1 of \d+ spans$/).waitFor();
    await page.getByLabel('Min duration, ms').fill('0.001');
    await page.getByText('No span matches').waitFor();
    await page.getByLabel('Filter by name').fill('');
    await table.getByRole('cell', { name: /^decode/ }).waitFor();
    assert.equal(await table.getByRole('cell', { name: 'sized' }).count(), 0);
    await axe(page, 'a filtered waterfall');
  },

  async chatgpt(page) {
    // The list of models comes after the import.
    let release;
    const imported = new Promise((resolve) => (release = resolve));
    await page.route('**/api/tags', async (route) => {
      await imported;
      await route.continue();
    });
    await open(page, setting.main, 'settings');
    const conversations = [
      {
        title: 'From elsewhere <img src=x onerror=window.pwned=1>', create_time: 1700000000, update_time: 1700000009, current_node: 'a2',
        mapping: {
          root: { parent: null, message: null },
          q: node('root', 'user', ['A question', { content_type: 'image_asset_pointer' }]),
          a1: node('q', 'assistant', ['The first answer'], { metadata: { model_slug: 'gpt-4o' } }),
          a2: node('q', 'assistant', [HOSTILE], { create_time: 1700000005, metadata: { model_slug: '<b>gpt</b>' } }),
          x: node('y', 'user', ['x']), y: node('x', 'user', ['y']),
        },
      },
      { title: 'Empty', mapping: { only: node(null, 'user', ['']) } },
    ];
    conversations[0].mapping.q.message.content.content_type = 'multimodal_text';
    await importFile(page, 'conversations.json', JSON.stringify(conversations));
    await page.getByText('1 chat was imported. 4 items without usable text (images, files, tool calls) were skipped.').waitFor();
    release();
    await axe(page, 'import');
    await page.locator('nav').getByText('From elsewhere').click();
    await page.getByText('2 of 2').waitFor();
    await page.locator('.assistant').getByRole('button', { name: 'Previous version' }).click();
    await page.getByText('The first answer').waitFor();
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.equal(await page.locator('article iframe, article script, article img').count(), 0);
    // The chat continues with a model of this server.
    await page.waitForFunction(() => document.querySelector('.pickers select')?.value);
    await page.locator('.pickers select').first().selectOption('writer:latest');
    await ask(page, '1 2 3');
    await page.getByRole('button', { name: 'Again' }).nth(1).waitFor();
    assert.equal(await page.locator('article').count(), 4);
    for (const bad of ['[]', '[[[', '{"mapping":{}}', '['.repeat(100_000)]) {
      await page.goto(`${setting.main}/ui/#/settings`);
      await importFile(page, 'x.json', bad);
      await page.getByText('This file cannot be imported').waitFor();
      await page.locator('.banner').getByRole('button', { name: 'Close' }).click();
    }
  },

  async ways(page) {
    // Names of members of every object are no views.
    await open(page, setting.main);
    for (const name of ['__proto__', 'constructor', 'nothing']) {
      await page.goto(`${setting.main}/ui/#/${name}`);
      await page.getByText('This page does not exist').waitFor();
      await page.waitForFunction(() => document.title === 'Billow');
      await page.goto(`${setting.main}/ui/#/chat`);
      await page.locator('#composer').waitFor();
    }
  },

  async paint(page) {
    const times = [];
    for (let i = 0; i < 10 && !(Math.min(...times) < 10_000); i += 1) {
      await page.goto('about:blank');
      await page.goto(`${setting.main}/ui/`);
      await page.locator('#composer').waitFor();
      times.push(await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0));
    }
    console.log(`  first paint: ${times.map((time) => time.toFixed(0)).join(', ')} ms`);
    assert.ok(Math.min(...times) < 10_000);
  },

  async place(page) {
    await control('line');
    await open(page, setting.narrow);
    await page.locator('#composer').fill('1 2 3');
    await page.keyboard.press('Enter');
    await page.getByText('Waiting in the queue: 1 before this one').waitFor({ timeout: 90_000 });
    await shot(page, 'place');
    await control('empty');
    await page.getByRole('button', { name: /Again/ }).waitFor({ timeout: 90_000 });
    assert.equal(await page.locator('.error').count(), 0);
  },
});
