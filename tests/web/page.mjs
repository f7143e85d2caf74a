// The cases of page_test.py. Each has its own browser context. A case fails if the page sends a
// request to another host, violates its policy, or writes an error to the console.
import assert from 'node:assert/strict';
import { appendFileSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { gzipSync } from 'node:zlib';
import { HOSTILE, RICH, end, front as frontOf, line, telling } from './front.mjs';
import { faultCases } from './faults.mjs';
import { keepingCases } from './keeping.mjs';
import { lossCases } from './losses.mjs';
import { tabCases } from './tabs.mjs';
import { viewCases } from './views.mjs';
import { watchingCases } from './watching.mjs';
import { ask, askForMuch, importChat, rows, theme, watchFrames } from './steps.mjs';

const require = createRequire(new URL('../../web/package.json', import.meta.url));
const { chromium } = require('playwright-core');
const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const setting = JSON.parse(process.argv[2]);
const control = (name) => fetch(`${setting.control}/${name}`, { method: 'POST' });
const front = (...more) => frontOf(setting.main, ...more);
const PHONE = { width: 390, height: 844 };
const DESKTOP = { width: 1280, height: 800 };

const cases = {
  async chat(page) {
    await open(page, setting.main);
    await page.locator('#composer').fill('1 2 3 4 5');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Again' }).waitFor();
    const stats = await page.locator('.stats').last().innerText();
    assert.match(stats, /tokens .*\/s/);
    await page.getByRole('meter', { name: 'Context' }).waitFor();
    assert.match(await page.locator('.gauge').innerText(), /of [\d,]+ tokens/);
    // Another version, an edit, and back to the first version.
    await page.getByRole('button', { name: 'Again' }).click();
    await page.getByText('2 of 2').waitFor();
    await page.getByRole('button', { name: 'Again' }).waitFor();
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.locator('.edit textarea').fill('9 8 7');
    await page.getByRole('button', { name: 'Send again' }).click();
    await page.locator('.user').getByText('9 8 7').waitFor();
    await page.getByRole('button', { name: 'Again' }).waitFor();
    await page.locator('.user').getByRole('button', { name: 'Previous version' }).click();
    await page.locator('.user').getByText('1 2 3 4 5').waitFor();
    await rows(page, 'chats'); // what is shown may not be stored yet
    // The chat survives a reload.
    const here = page.url();
    await page.goto('about:blank');
    await page.goto(here);
    await page.locator('.user').getByText('1 2 3 4 5').waitFor();
    await page.getByRole('button', { name: 'Fork' }).click();
    await page.getByRole('link', { name: '1 2 3 4 5 (fork)' }).waitFor();
    await page.locator('.user').getByText('1 2 3 4 5').waitFor();
    assert.equal(await page.getByText(/ of 2$/).count(), 0);
    // Its trace.
    await page.getByRole('link', { name: 'Trace' }).click();
    await page.getByRole('cell', { name: 'tokenised' }).waitFor();
    await page.getByRole('cell', { name: /^decode/ }).waitFor();
  },

  async redirects(page) {
    const reply = await page.goto(`${setting.main}/`);
    assert.equal(reply.status(), 200);
    assert.equal(page.url().split('#')[0], `${setting.main}/ui/`);
    assert.equal(await (await fetch(`${setting.main}/`)).text(), 'Ollama is running');
    await page.goto(`${setting.main}/ui`);
    assert.equal(page.url().split('#')[0], `${setting.main}/ui/`);
    assert.equal((await fetch(`${setting.main}/ui/nothing`)).status, 404);
  },

  async prefix(page) {
    // A proxy may serve the whole server under a path.
    const server = await front(undefined, undefined, '/models/one');
    await page.goto(`${server.url}/`);
    assert.equal(page.url().split('#')[0], `${server.url}/ui/`);
    await open(page, server.url);
    await ask(page, '1 2 3');
    await page.getByRole('link', { name: 'Trace' }).click();
    await page.getByRole('cell', { name: 'sized' }).waitFor();
    await page.goto(`${server.url}/ui`);
    assert.equal(page.url().split('#')[0], `${server.url}/ui/`);
    server.close();
  },

  async grown(page) {
    // An answer is longer than the model's context: the gauge shows growth and the forgotten
    // tokens.
    await open(page, setting.main);
    await askForMuch(page);
    await page.locator('#composer').fill('1 2 3');
    await page.keyboard.press('Enter');
    await page.locator('.gauge').getByText('grew from 512 to 1,024').waitFor({ timeout: 300_000 });
    await page.getByText(/the model has forgotten/).waitFor({ timeout: 300_000 });
    await page.locator('#composer').press('Escape');
    await page.getByText('Stopped', { exact: true }).first().waitFor();
    assert.match(await page.locator('.stats').last().innerText(), /about [\d,]+ tokens/);
    await page.getByRole('meter', { name: 'Context' }).waitFor();
    await shot(page, 'grown');
  },

  async rich(page) {
    const server = await front(telling(RICH));
    await open(page, server.url);
    await ask(page, 'Show me everything');
    await page.locator('.hljs-keyword').first().waitFor();
    await page.locator('math').nth(1).waitFor();
    assert.equal(await page.locator('math').count(), 2);
    assert.equal(await page.locator('article table tbody tr').count(), 2);
    assert.match(await page.locator('.gauge').innerText(), /1,927 of 8,192 tokens/);
    assert.match(await page.locator('.gauge').innerText(), /cached 1,200/);
    assert.match(await page.locator('.stats').last().innerText(), /412 tokens · 38\.0\/s/);
    await page.getByRole('button', { name: 'Copy the code' }).waitFor();
    await axe(page, 'rich chat');
    await shot(page, 'chat');
    await shot(page, 'chat-phone', PHONE);
    await theme(page, 'dark');
    await axe(page, 'rich chat, dark');
    await shot(page, 'chat-dark');
    await page.locator('.list').evaluate((list) => list.scrollTo(0, 0));
    await shot(page, 'chat-top-dark');
    server.close();
  },

  async tools(page) {
    // Images, thinking, and a tool call with a result.
    let asked;
    const server = await front((body, response) => {
      asked = body;
      response.writeHead(200, { 'Content-Type': 'application/x-ndjson', 'X-Billow-Context': '4096' });
      const last = body.messages[body.messages.length - 1];
      if (last.role === 'tool') {
        response.write(line(`It is ${last.content}.`));
      } else {
        response.write(`${JSON.stringify({ message: { role: 'assistant', content: '', thinking: 'The user wants to know the weather.' }, done: false })}\n`);
        response.write(`${JSON.stringify({ message: { role: 'assistant', content: '', tool_calls: [{ function: { name: 'weather', arguments: { city: 'Bergen' } } }] }, done: false })}\n`);
      }
      response.end(end());
    }, ['completion', 'vision', 'thinking', 'tools']);
    await open(page, server.url);
    const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
    await page.locator('.composer input[type=file]').setInputFiles([{ name: 'a.txt', mimeType: 'text/plain', buffer: png }]);
    await page.getByText('a.txt cannot be sent').waitFor();
    await page.locator('.composer input[type=file]').setInputFiles([{ name: 'a.png', mimeType: 'image/png', buffer: png }]);
    await page.locator('.composer img').waitFor();
    for (const kind of ['paste', 'drop']) {
      await page.locator('#composer').evaluate((area, [type, data]) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], 'b.png', { type: 'image/png' }));
        area.dispatchEvent(type === 'paste' ? new ClipboardEvent(type, { clipboardData: transfer, bubbles: true, cancelable: true }) : new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
      }, [kind, png.toString('base64')]);
      await page.locator('.composer img').nth(1).waitFor();
      await page.getByRole('button', { name: 'Remove image 2' }).click();
      await page.locator('.composer img').nth(1).waitFor({ state: 'detached' });
    }
    await page.getByRole('button', { name: 'Options' }).click();
    await page.getByLabel('System prompt').fill('You may ask for the weather.');
    await page.getByLabel('Tools, as JSON').fill('[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}]');
    await page.getByLabel('Thinking').selectOption('On');
    await page.getByRole('button', { name: 'OK' }).click();
    await ask(page, 'What is the weather in Bergen?');
    assert.equal(asked.messages[0].role, 'system');
    assert.deepEqual(asked.messages[1].images, [png.toString('base64')]);
    assert.equal(asked.tools[0].function.name, 'weather');
    assert.equal(asked.think, true);
    await page.locator('.images img').waitFor();
    await page.getByText('Calls weather').waitFor();
    assert.equal(await page.getByText('The user wants to know').isVisible(), false);
    await page.locator('.thinking summary').click();
    await page.getByText('The user wants to know').waitFor();
    await axe(page, 'tools');
    await shot(page, 'tools');
    await page.getByLabel('Result').fill('raining');
    await page.getByRole('button', { name: 'Send the result' }).click();
    await page.getByText('It is raining.').waitFor();
    const sent = asked.messages.slice(-2);
    assert.deepEqual(sent[0].tool_calls[0].function, { name: 'weather', arguments: { city: 'Bergen' } });
    assert.equal(sent[1].tool_name, 'weather');
    server.close();
  },

  async calls(page) {
    // Each call of an answer has a field for its result. The next request has all results.
    let asked;
    const server = await front((body, response) => {
      asked = body;
      response.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
      const calls = ['Bergen', 'Oslo'].map((city) => ({ function: { name: 'weather', arguments: { city } } }));
      if (body.messages.length > 1) response.write(line('It rains.'));
      else response.write(`${JSON.stringify({ message: { role: 'assistant', content: '', tool_calls: calls }, done: false })}\n`);
      response.end(end());
    });
    await open(page, server.url);
    await ask(page, 'The weather?');
    await page.getByLabel('Result 1, of weather').fill('rain');
    await page.getByRole('button', { name: 'Send the results' }).click();
    await page.waitForTimeout(300);
    assert.equal(asked.messages.length, 1, 'a result is missing');
    await page.getByLabel('Result 2, of weather').fill('snow');
    await axe(page, 'two calls');
    await page.getByRole('button', { name: 'Send the results' }).click();
    await page.getByText('It rains.').waitFor();
    assert.deepEqual(asked.messages.slice(2), [{ role: 'tool', content: 'rain', tool_name: 'weather' }, { role: 'tool', content: 'snow', tool_name: 'weather' }]);
    server.close();
  },

  async deep(page) {
    // Text with too many levels is shown as text, and the other messages stay readable.
    let text = '';
    const server = await front((request, response) => telling(text)(request, response));
    await open(page, server.url);
    const nested = '**a _b '.repeat(200) + 'x_ c** '.repeat(200);
    const all = ['>'.repeat(60), '>'.repeat(300), '>'.repeat(3000), '>'.repeat(10_000), `${'- '.repeat(3000)}x`, `${'> * '.repeat(60)}x`, nested];
    for (const [index, deep] of all.entries()) {
      await importChat(page, server.url, [['user', 'the question'], ['assistant', `before\n\n${deep}`], ['user', 'the next']], { title: `Deep ${index}` });
      await page.locator('.user').getByText('the question').waitFor();
      await page.locator('.user').getByText('the next').waitFor();
      await page.locator('.assistant').getByText('before').waitFor();
    }
    for (const deep of ['>'.repeat(1500), `${'- '.repeat(1500)}x`]) {
      text = `before\n\n${deep}`;
      await page.getByRole('link', { name: 'New chat' }).click();
      await ask(page, 'the question');
      await page.locator('.user').getByText('the question').waitFor();
      await page.locator('.assistant').getByText('before').waitFor();
    }
    await page.getByRole('link', { name: 'New chat' }).click();
    await page.getByText('What is on your mind?').waitFor();
    server.close();
  },

  async hostile(page) {
    const server = await front((request, response) => telling(HOSTILE)(request, response));
    await open(page, server.url);
    await ask(page, '<img src=x onerror=window.pwned=9>');
    await page.locator('.katex, .math').first().waitFor();
    await page.waitForTimeout(300);
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.equal(await page.locator('article iframe, article script, article img').count(), 0);
    const links = await page.locator('article a[href]').evaluateAll((all) => all.map((one) => one.getAttribute('href')));
    assert.ok(links.every((href) => /^(https:\/\/evil\.example\/leak\.png$|#\/requests\/)/.test(href)), links.join(' '));
    assert.ok((await page.locator('.assistant').innerText()).includes('<script>window.pwned=2</script>'));
    // A hostile file of exported chats.
    await page.goto(`${server.url}/ui/#/settings`);
    const file = [{ kind: 'billow-chats', version: 1 }, { chat: { id: '1', title: '<img src=x onerror=window.pwned=10>', models: ['<b>'], leaf: '2', params: { stop: 7, __proto__: 1 } } },
      { message: { id: '2', chat: '1', parent: '2', role: 'assistant', text: HOSTILE, model: '<script>' } }, { message: { id: '3', chat: 'other', role: 'user', text: 'x' } }, { message: 7 }];
    await page.locator('input[type=file]').setInputFiles({ name: 'x.jsonl', mimeType: 'text/plain', buffer: Buffer.from(file.map((row) => JSON.stringify(row)).join('\n')) });
    await page.getByText('1 chat was imported').waitFor();
    await page.locator('nav').getByText('<img src=x onerror=window.pwned=10>').click();
    await page.locator('.assistant').waitFor();
    await page.goto(`${server.url}/ui/#/settings`);
    await page.locator('input[type=file]').setInputFiles({ name: 'x.jsonl', mimeType: 'text/plain', buffer: Buffer.from('{}') });
    await page.getByText('This file cannot be imported').waitFor();
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    server.close();
  },

  async streaming(page) {
    // A long answer with up to 2000 pieces per second: the page changes its text at most once per
    // frame, and a reader who scrolls up is not scrolled down.
    const server = await front((_request, response) => {
      response.writeHead(200, { 'Content-Type': 'application/x-ndjson', 'X-Billow-Context': '32768' });
      let n = 0;
      const timer = setInterval(() => {
        let text = '';
        for (let i = 0; i < 8; i += 1, n += 1) text += line(n % 60 === 59 ? '.\n\n' : n % 200 === 100 ? '\n\n- item **bold** `code`\n' : `word${n} `);
        response.write(text);
        if (n > 6000) {
          clearInterval(timer);
          response.end(end());
        }
      }, 4);
      response.on('close', () => clearInterval(timer));
    });
    await open(page, server.url);
    await watchFrames(page);
    await page.locator('#composer').fill('Tell me a long story');
    await page.keyboard.press('Enter');
    await page.getByText('word600 ').waitFor();
    await page.locator('.list').hover();
    await page.mouse.wheel(0, -600);
    await page.getByRole('button', { name: /Go to the latest/ }).waitFor();
    const top = await page.locator('.list').evaluate((list) => list.scrollTop);
    await page.waitForTimeout(400);
    assert.equal(await page.locator('.list').evaluate((list) => list.scrollTop), top, 'the reader is not scrolled down');
    // Typing works during the answer.
    await page.locator('#composer').fill('the next question');
    await page.getByRole('button', { name: 'Again' }).waitFor({ timeout: 90_000 });
    assert.equal(await page.locator('#composer').inputValue(), 'the next question');
    const { frames, changes } = await page.evaluate(() => ({ frames: window.frames_.sort((a, b) => a - b), changes: window.changes_ }));
    const median = frames[Math.floor(frames.length / 2)];
    console.log(`  frames while streaming: median ${median.toFixed(1)} ms, 95 % ${frames[Math.floor(frames.length * 0.95)].toFixed(1)} ms; ${changes} changes in ${frames.length} frames`);
    assert.ok(changes > 0 && changes <= frames.length, `${changes} changes in ${frames.length} frames`);
    server.close();
  },

  async compare(page) {
    await open(page, setting.main);
    await page.getByRole('button', { name: 'Compare with more models' }).click();
    assert.equal(await page.locator('.pickers select').count(), 2);
    await page.locator('#composer').fill('1 2 3');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Again' }).nth(1).waitFor({ timeout: 90_000 });
    await axe(page, 'compare');
    await shot(page, 'compare');
    await page.getByRole('button', { name: 'Continue with this answer' }).click();
    await page.getByText('The chat continues with this answer').waitFor();
  },

  async models(page) {
    await open(page, setting.main, 'models');
    await page.getByRole('heading', { name: 'writer:latest' }).waitFor();
    await page.getByLabel('Name', { exact: true }).fill(`${setting.registry}/a/small`);
    await page.getByLabel('The registry has no TLS').check();
    await page.getByRole('button', { name: 'Pull', exact: true }).click();
    await page.locator('.job progress[value]').waitFor();
    await shot(page, 'models-pull');
    await page.locator('.job').getByRole('button', { name: 'Stop' }).click();
    await page.getByText('was stopped').first().waitFor();
    await control('fast');
    await page.getByLabel('Name', { exact: true }).fill(`${setting.registry}/a/small`);
    await page.getByRole('button', { name: 'Pull', exact: true }).click();
    await page.getByText('was pulled').first().waitFor();
    const pulled = page.locator('.models > li').filter({ has: page.getByRole('heading', { name: /a\/small/ }) });
    await pulled.waitFor();
    await pulled.getByText(/^Plan weights .* · first context .* · work space .* · total .*, free .* of .* fits$/).waitFor();
    await axe(page, 'models');
    await shot(page, 'models');
    await shot(page, 'models-phone', PHONE);
    await pulled.getByRole('button', { name: 'Load', exact: true }).click();
    await pulled.getByText('Loaded', { exact: true }).waitFor();
    await pulled.getByRole('button', { name: 'Unload' }).click();
    await pulled.getByText('not loaded').waitFor();
    await pulled.getByRole('button', { name: 'Details' }).click();
    await page.getByRole('dialog').getByText('general.architecture').waitFor();
    await axe(page, 'details of a model');
    await page.keyboard.press('Escape');
    await pulled.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await pulled.waitFor({ state: 'detached' });
    // An unknown name gives an error of one line.
    await page.getByLabel('Name', { exact: true }).fill(`${setting.registry}/a/nothing`);
    await page.getByRole('button', { name: 'Pull', exact: true }).click();
    await page.locator('.job [role=alert]').waitFor();
    // A variant.
    const writer = page.locator('.models > li').filter({ has: page.getByRole('heading', { name: 'writer:latest' }) });
    await writer.getByRole('button', { name: 'A variant of this model' }).click();
    await page.getByLabel('Name of the model').fill('pirate');
    await page.getByLabel('System prompt').fill('Speak like a pirate.');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('heading', { name: 'pirate:latest' }).waitFor();
  },

  async upload(page) {
    page.allowsFailures = true; // a HEAD with status 404 logs an error to the console
    await open(page, setting.main, 'models');
    const digest = (await (await fetch(`${setting.main}/api/show`, { method: 'POST', body: '{"model":"vectors"}' })).json()).modelfile.match(/sha256-[0-9a-f]{64}/)?.[0];
    assert.ok(digest);
    const own = Buffer.concat([readFileSync(process.env.BILLOW_TINY_GGUF), Buffer.from('another end')]);
    await page.locator('#gguf').setInputFiles({ name: 'My Model.gguf', mimeType: 'application/octet-stream', buffer: own });
    assert.equal(await page.locator('#gguf-name').inputValue(), 'my-model');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByRole('heading', { name: 'my-model:latest' }).waitFor();
  },

  async inside(page) {
    await open(page, setting.main);
    await ask(page, '1 2 3');
    await page.goto(`${setting.main}/ui/#/requests`);
    await page.getByRole('cell', { name: '/api/chat' }).first().waitFor();
    await axe(page, 'requests');
    await shot(page, 'requests');
    await shot(page, 'requests-phone', PHONE);
    await page.locator('tbody tr').first().getByRole('link').click();
    await page.getByRole('cell', { name: 'sized' }).waitFor();
    await axe(page, 'trace');
    await shot(page, 'trace');
    await page.goto(`${setting.main}/ui/#/memory`);
    await page.getByRole('cell', { name: /writer/ }).waitFor();
    await page.locator('.uplot canvas').first().waitFor();
    await axe(page, 'memory');
    await shot(page, 'memory');
    await theme(page, 'dark');
    await axe(page, 'memory, dark');
    await shot(page, 'memory-dark');
    page.allowsFailures = true;
    await page.goto(`${setting.main}/ui/#/requests/web-not-there`).catch(() => undefined);
    await page.getByText('This trace no longer exists').waitFor();
  },

  async embeddings(page) {
    await open(page, setting.main, 'embeddings');
    await page.getByLabel('Model').selectOption('vectors:latest');
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.getByText('dimensions').waitFor();
    const cells = await page.locator('.heat tbody td').allInnerTexts();
    assert.equal(cells.length, 25);
    assert.equal(cells[0], '1.00');
    assert.equal(cells[1], cells[5]);
    await axe(page, 'embeddings');
    await shot(page, 'embeddings');
    await shot(page, 'embeddings-phone', PHONE);
    await page.getByRole('button', { name: 'Rerank' }).click();
    await page.getByLabel('Model').selectOption('ranker:latest');
    await page.getByRole('button', { name: 'Rank the texts' }).click();
    await page.locator('.score .bar').first().waitFor();
    assert.equal(await page.locator('tbody tr').count(), 5);
    page.allowsFailures = true;
    await page.getByLabel('Model').selectOption('vectors:latest');
    await page.getByRole('button', { name: 'Rank the texts' }).click();
    await page.locator('[role=alert]').waitFor();
  },

  async settings(page) {
    await open(page, setting.main, 'settings');
    await page.getByLabel('Dark').check();
    assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
    await axe(page, 'settings');
    await shot(page, 'settings-dark');
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    await page.keyboard.press('Escape');
    await page.reload();
    assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
  },

  async keys(page) {
    page.allowsFailures = true; // answers with status 401 log errors to the console
    await page.goto(`${setting.locked}/ui/`);
    const question = page.getByRole('dialog', { name: 'This server needs an API key' });
    await question.getByLabel('API key').fill('billow-wrong');
    await axe(page, 'the question for a key');
    await shot(page, 'key');
    await question.getByRole('button', { name: 'OK' }).click();
    await question.getByText('The server does not know this key').waitFor();
    await question.getByLabel('API key').fill(setting.key);
    await question.getByRole('button', { name: 'OK' }).click();
    await page.getByText('No models yet').waitFor();
    assert.equal(await question.count(), 0);
    // The key stays in the tab.
    await page.reload();
    await page.getByText('No models yet').waitFor();
    assert.equal(await question.count(), 0);
  },

  async empty(page) {
    await open(page, setting.bare);
    await page.getByText('No models yet').waitFor();
    await axe(page, 'no models');
    await shot(page, 'empty');
    await shot(page, 'empty-phone', PHONE);
    await page.setViewportSize(PHONE);
    await page.getByRole('button', { name: 'Open the menu' }).click();
    await page.waitForTimeout(300);
    await axe(page, 'menu of a phone');
    await page.screenshot({ path: `${setting.output}/menu-phone.png` });
    await page.getByRole('link', { name: 'Models' }).click();
    await page.getByText('read-only').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Pull' }).count(), 0);
  },

  async many(page) {
    // Opens a chat with 500 messages, then uses only the keyboard.
    await open(page, setting.main, 'settings');
    const rows = [{ kind: 'billow-chats', version: 1 }, { chat: { id: 'c', title: 'A long one', models: ['writer:latest'], leaf: 'm499' } }];
    for (let i = 0; i < 500; i += 1) rows.push({ message: { id: `m${i}`, chat: 'c', parent: i ? `m${i - 1}` : '', role: i % 2 ? 'assistant' : 'user', text: `Message ${i} with **bold** and \`code\`.\n\n- a\n- b`, created: i } });
    await page.locator('input[type=file]').setInputFiles({ name: 'x.jsonl', mimeType: 'text/plain', buffer: Buffer.from(rows.map((row) => JSON.stringify(row)).join('\n')) });
    await page.getByText('1 chat was imported').waitFor();
    const times = [];
    for (let i = 0; i < 4 && !(Math.min(...times) < 60_000); i += 1) {
      await page.goto(`${setting.main}/ui/#/settings`);
      const began = Date.now();
      await page.locator('nav').getByText('A long one').click();
      await page.getByText('Message 499').waitFor();
      times.push(Date.now() - began);
    }
    console.log(`  500 messages open in ${times.join(', ')} ms`);
    assert.ok(Math.min(...times) < 60_000);
    await page.keyboard.press('Control+k');
    await page.waitForFunction(() => document.activeElement.id === 'find-chat');  // drawing 500 messages may delay it
    await page.keyboard.press('Control+Shift+o');
    await page.waitForFunction(() => document.activeElement.id === 'composer');
  },

  async sizes() {
    const index = await (await fetch(`${setting.main}/ui/`)).text();
    const seen = new Map();
    const load = async (name) => {
      if (seen.has(name)) return;
      const reply = await fetch(`${setting.main}/ui/${name}`, { headers: { 'Accept-Encoding': 'gzip' } });
      assert.equal(reply.status, 200, name);
      assert.match(reply.headers.get('cache-control'), /immutable/);
      const text = await reply.text();
      seen.set(name, gzipSync(text, { level: 9 }).length);
      for (const [, other] of text.matchAll(/["'`](?:\.\/|assets\/)([\w.-]+\.(?:js|css))["'`]/g)) await load(`assets/${other}`);
    };
    const first = [...index.matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)].map(([, name]) => name);
    assert.ok(first.length >= 2);
    for (const name of first) await load(name);
    const licences = await (await fetch(`${setting.main}/ui/licences.txt`)).text();
    for (const name of ['svelte', 'marked', 'katex', 'uplot', 'idb', 'highlight.js', 'lowlight']) assert.match(licences, new RegExp(`^${name} [0-9]`, 'm'));
    const sum = (names) => names.reduce((total, name) => total + seen.get(name), 0);
    console.log(`  first load ${(sum(first) / 1024).toFixed(1)} KiB, all ${(sum([...seen.keys()]) / 1024).toFixed(1)} KiB, gzip, ${seen.size} files`);
    assert.ok(seen.size >= 8);
    assert.ok(sum(first) < 90 * 1024);
    assert.ok(sum([...seen.keys()]) < 400 * 1024);
  },

  ...faultCases({ setting, control, front, open: (...all) => open(...all), shot: (...all) => shot(...all) }),
  ...keepingCases({ setting, front, open: (...all) => open(...all) }),
  ...lossCases({ setting, front, open: (...all) => open(...all) }),
  ...tabCases({ front, open: (...all) => open(...all) }),
  ...watchingCases({ setting, control, front, open: (...all) => open(...all), shot: (...all) => shot(...all), axe: (...all) => axe(...all) }),
  ...viewCases({ setting, control, front, open: (...all) => open(...all), shot: (...all) => shot(...all), axe: (...all) => axe(...all) }),
};

async function open(page, url, view = '') {
  await page.goto(`${url}/ui/${view ? `#/${view}` : ''}`);
  await page.locator('aside nav').first().waitFor({ state: 'attached' });
  if (view || url === setting.bare) return;
  await page.waitForFunction(() => document.querySelector('.pickers select')?.value);
  await page.locator('.pickers select').first().selectOption('writer:latest');
}

async function axe(page, where) {
  await page.evaluate(axeSource);
  const found = await page.evaluate(async () => (await window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] })).violations.map((one) => `${one.id}: ${one.nodes.map((node) => `${node.target} ${node.failureSummary}`).slice(0, 3).join(' | ')}`));
  assert.deepEqual(found, [], `axe, ${where}`);
  nAxe += 1;
}
let nAxe = 0;

async function shot(page, name, viewport = DESKTOP) {
  await page.setViewportSize(viewport);
  await page.waitForTimeout(250);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(overflow <= 0, `${name}: the page is ${overflow} pixels too wide`);
  await page.screenshot({ path: `${setting.output}/${name}.png` });
  await page.setViewportSize(DESKTOP);
}

const browser = await chromium.launch({ executablePath: setting.chromium });
const failed = [];
for (const [name, run] of Object.entries(cases)) {
  if (setting.names.length > 0 && !setting.names.includes(name)) continue;
  const began = Date.now();
  const context = await browser.newContext({ viewport: DESKTOP, reducedMotion: 'reduce', colorScheme: 'light' });
  context.setDefaultTimeout(60_000);
  const faults = [];
  await context.exposeFunction('onViolation', (text) => faults.push(`policy: ${text}`));
  await context.addInitScript(() => addEventListener('securitypolicyviolation', (event) => window.onViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`)));
  const page = await context.newPage();
  page.on('console', (message) => {
    if (message.type() !== 'error' && message.type() !== 'warning') return;
    if (page.allowsFailures && /Failed to load resource|ERR_/.test(message.text())) return;
    faults.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`error: ${error.stack ?? error}`));
  page.on('request', (request) => {
    const { protocol, hostname } = new URL(request.url());
    if (!['data:', 'blob:', 'about:'].includes(protocol) && hostname !== '127.0.0.1') faults.push(`request to another host: ${request.url()}`);
  });
  try {
    await run(page);
    assert.deepEqual(faults, []);
    console.log(`ok ${name} (${Date.now() - began} ms)`);
  } catch (error) {
    failed.push(name);
    const text = `FAILED ${name} (${Date.now() - began} ms): ${error.stack ?? error}\n${faults.join('\n')}`;
    console.log(text);
    appendFileSync(`${setting.output}/faults.txt`, `${text}\n`);
    await page.screenshot({ path: `${setting.output}/FAILED-${name}.png` }).catch(() => undefined);
  }
  await context.close();
}
await browser.close();
console.log(failed.length > 0 ? `failed: ${failed.join(', ')}` : `all cases passed; axe found no violation in ${nAxe} views`);
process.exit(failed.length > 0 ? 1 : 0);
