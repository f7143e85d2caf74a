// Cases of page.mjs with faults or interruptions of the server, the model's process, the connection
// or the page.
import assert from 'node:assert/strict';
import { end, line, telling } from './front.mjs';
import { ask, askForMuch, quiet, rows, until } from './steps.mjs';

export const faultCases = ({ setting, control, front, open, shot }) => {
  // Opens a chat and starts a long answer.
  const startLongAnswer = async (page) => {
    await open(page, setting.main);
    await askForMuch(page);
    await page.locator('#composer').fill('1 2 3');
    await page.keyboard.press('Enter');
    await page.getByText('Writing', { exact: true }).waitFor();
  };

  return {
    async faults(page) {
      page.allowsFailures = true;
      let mode = 'cut';
      let cut = () => undefined;
      let received;
      const server = await front((request, response) => {
        received = request;
        if (mode === 'cut') {
          response.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
          response.write(line('The first half'));
          cut = () => response.destroy();
        } else if (mode === 'error') {
          response.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
          response.write(line('Some text'));
          response.end(`${JSON.stringify({ error: 'the model broke <b>down</b>' })}\n`);
        } else if (mode === 'busy') {
          mode = 'ok';
          response.writeHead(503, { 'Content-Type': 'application/json', 'Retry-After': '20' });
          response.end('{"error":"server busy"}');
        } else telling(' and the rest')(request, response);
      });
      await open(page, server.url);
      await page.locator('#composer').fill('Go');
      await page.keyboard.press('Enter');
      await page.getByText('The first half').waitFor();
      cut();
      await page.locator('.error').getByText('The connection was lost before the answer ended').waitFor();
      await page.getByText('The first half').waitFor();
      mode = 'ok';
      await page.getByRole('button', { name: 'Continue' }).click();
      await page.getByText('The first half and the rest').waitFor();
      assert.equal(received.prompt, '<user>Go<answer>The first half');
      assert.equal(received.raw, true);
      mode = 'error';
      await page.getByRole('button', { name: 'Again' }).click();
      await page.locator('.error').getByText('the model broke <b>down</b>').waitFor();
      mode = 'busy';
      await page.getByRole('button', { name: 'Try again' }).click();
      await page.getByText(/The server is busy/).first().waitFor();
      await page.waitForTimeout(1000); // the trace of the refused attempt does not replace this
      assert.equal(await page.getByText(/The server is busy/).count(), 1);
      await page.getByText('and the rest').first().waitFor();
      server.close();
    },

    async storage(page) {
      // A browser without storage, then a browser whose storage is full: the chat works, and the
      // page shows a notice.
      await page.addInitScript(() => Object.defineProperty(window, 'indexedDB', { get() { throw new DOMException('no', 'SecurityError'); } }));
      await open(page, setting.main);
      await page.getByText('This browser stores nothing for this page').waitFor();
      // Another notice hides this one for some seconds. Then this one returns, and stays until it is
      // closed. The page itself waits for the other notice: this program may be too late to see it.
      await Promise.all([
        page.waitForFunction(() => document.querySelector('.banner')?.innerText.includes('a.txt cannot be sent')),
        page.locator('.composer input[type=file]').setInputFiles([{ name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('a') }]),
      ]);
      await page.getByText('This browser stores nothing for this page').waitFor();
      await page.getByRole('button', { name: 'Close' }).click();
      await page.locator('.banner').waitFor({ state: 'detached' });
      await ask(page, '1 2 3');
      await page.locator('nav').getByText('1 2 3').waitFor();
      const full = await page.context().newPage();
      await full.addInitScript(() => { IDBObjectStore.prototype.put = () => { throw new DOMException('full', 'QuotaExceededError'); }; });
      await open(full, setting.main);
      await ask(full, '4 5 6');
      await full.getByText('This browser has no room for more chats').waitFor();
      await full.locator('.user').getByText('4 5 6').waitFor();
    },

    async polls(page) {
      // An answer that ends before its first token leaves no polls.
      let mode = 'stop';
      let fail;
      const server = await front((_request, response) => {
        response.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
        response.write(line(''));
        fail = () => response.end(`${JSON.stringify({ error: 'it broke' })}\n`);
      });
      let n = 0;
      page.on('request', (request) => { if (request.url().includes('/api/trace/')) n += 1; });
      await open(page, server.url);
      for (mode of ['stop', 'error']) {
        fail = undefined;
        await page.locator('#composer').fill('Go');
        await page.keyboard.press('Enter');
        await page.waitForRequest((request) => request.url().includes('/api/trace/'));
        await until(page, () => fail, 'the question');
        if (mode === 'stop') await page.locator('#composer').press('Escape');
        else fail();
        await page.getByText(mode === 'stop' ? 'Stopped' : 'it broke', { exact: true }).first().waitFor();
        await quiet(page, () => n, 2000, `no polls after ${mode}`);
      }
      server.close();
    },

    async crash(page) {
      page.allowsFailures = true;
      await startLongAnswer(page);
      await control('crash');
      await page.locator('.error').getByText(/unexpectedly stopped/).waitFor();
      await page.getByRole('button', { name: 'Continue' }).waitFor();
    },

    async reload(page) {
      // The text so far survives a reload.
      await startLongAnswer(page);
      await until(page, async () => (await rows(page, 'messages')).some((row) => row.role === 'assistant' && row.text), 'the text is stored');
      await page.reload();
      await page.getByText('This answer is not complete').waitFor();
      assert.match(await page.locator('.assistant .markdown').innerText(), /^\[/);
      await page.getByRole('button', { name: 'Continue' }).waitFor();
    },

    async gone(page) {
      page.allowsFailures = true;
      await startLongAnswer(page);
      await control('kill');
      try {
        await page.locator('.error').getByText('The connection was lost before the answer ended').waitFor();
        await page.getByText('The server does not answer').waitFor();
        await page.locator('#composer').fill('kept while the server is down');
        await shot(page, 'server-gone');
      } finally {
        await control('start');
      }
      await page.getByText('The server does not answer').waitFor({ state: 'detached', timeout: 90_000 });
      assert.equal(await page.locator('#composer').inputValue(), 'kept while the server is down');
    },

    async queue(page) {
      page.allowsFailures = true;
      await control('fill');
      await open(page, setting.narrow);
      await page.locator('#composer').fill('1 2 3');
      await page.keyboard.press('Enter');
      await page.getByText(/The server is busy/).first().waitFor({ timeout: 90_000 });
      await control('empty');
      await page.getByRole('button', { name: /Again|Try again/ }).waitFor({ timeout: 90_000 });
      assert.equal(await page.locator('.error').count(), 0);
    },

    async stop(page) {
      await open(page, setting.main);
      await askForMuch(page);
      // An Enter that ends an input method's composition does not send.
      await page.locator('#composer').fill('1 2');
      await page.locator('#composer').evaluate((area) => area.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true })));
      assert.equal(await page.locator('article').count(), 0);
      await page.locator('#composer').press('Shift+Enter');
      assert.equal(await page.locator('#composer').inputValue(), '1 2\n');
      await page.locator('#composer').press('Enter');
      await page.getByText('Writing').waitFor();
      await page.locator('#composer').press('Escape');
      await page.getByText('Stopped', { exact: true }).first().waitFor();
      // The server has stopped the answer, too.
      await page.goto(`${setting.main}/ui/#/requests`);
      await page.getByRole('cell', { name: '499' }).first().waitFor();
    },
  };
};
