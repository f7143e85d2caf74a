// Cases of page.mjs in which something goes wrong, or is stopped: the server, the model's process, the connection, the page.
import assert from 'node:assert/strict';
import { end, line, telling } from './front.mjs';
import { ask, askForMuch } from './steps.mjs';

export const faultCases = ({ setting, control, front, open, shot }) => {
  // A chat whose answer is being written.
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
      let how = 'cut';
      let asked;
      const server = await front((request, response) => {
        asked = request;
        if (how === 'cut') {
          response.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
          response.write(line('The first half'));
          setTimeout(() => response.destroy(), 100);
        } else if (how === 'told') {
          response.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
          response.write(line('Some text'));
          response.end(`${JSON.stringify({ error: 'the model broke <b>down</b>' })}\n`);
        } else if (how === 'busy') {
          how = 'well';
          response.writeHead(503, { 'Content-Type': 'application/json', 'Retry-After': '1' });
          response.end('{"error":"server busy"}');
        } else telling(' and the rest')(request, response);
      });
      await open(page, server.url);
      await page.locator('#composer').fill('Go');
      await page.keyboard.press('Enter');
      await page.locator('.error').getByText('The connection was lost before the answer ended').waitFor();
      await page.getByText('The first half').waitFor();
      how = 'well';
      await page.getByRole('button', { name: 'Continue' }).click();
      await page.getByText('The first half and the rest').waitFor();
      assert.equal(asked.prompt, '<user>Go<answer>The first half');
      assert.equal(asked.raw, true);
      how = 'told';
      await page.getByRole('button', { name: 'Again' }).click();
      await page.locator('.error').getByText('the model broke <b>down</b>').waitFor();
      how = 'busy';
      await page.getByRole('button', { name: 'Try again' }).click();
      await page.getByText(/The server is busy/).first().waitFor();
      await page.getByText('and the rest').first().waitFor();
      server.close();
    },

    async storage(page) {
      // A browser that keeps nothing, then one that is full: the chat goes on, and the page says so.
      await page.addInitScript(() => Object.defineProperty(window, 'indexedDB', { get() { throw new DOMException('no', 'SecurityError'); } }));
      await open(page, setting.main);
      await page.getByText('This browser keeps nothing for this page').waitFor();
      await ask(page, '1 2 3');
      await page.locator('nav').getByText('1 2 3').waitFor();
      const full = await page.context().newPage();
      await full.addInitScript(() => { IDBObjectStore.prototype.put = () => { throw new DOMException('full', 'QuotaExceededError'); }; });
      await open(full, setting.main);
      await ask(full, '4 5 6');
      await full.getByText('This browser has no room for more chats').waitFor();
      await full.locator('.user').getByText('4 5 6').waitFor();
    },

    async crash(page) {
      page.allowsFailures = true;
      await startLongAnswer(page);
      await control('crash');
      await page.locator('.error').getByText(/unexpectedly stopped/).waitFor();
      await page.getByRole('button', { name: 'Continue' }).waitFor();
    },

    async reload(page) {
      // The text so far survives the page.
      await startLongAnswer(page);
      await page.waitForTimeout(2500);
      await page.reload();
      await page.getByText('This answer is not complete').waitFor();
      assert.match(await page.locator('.assistant .markdown').innerText(), /^\[/);
      await page.getByRole('button', { name: 'Continue' }).waitFor();
    },

    async gone(page) {
      page.allowsFailures = true;
      await startLongAnswer(page);
      await control('kill');
      await page.locator('.error').getByText('The connection was lost before the answer ended').waitFor();
      await page.getByText('The server does not answer').waitFor();
      await page.locator('#composer').fill('kept while it is away');
      await shot(page, 'server-gone');
      await control('start');
      await page.getByText('The server is back').waitFor({ timeout: 20_000 });
      assert.equal(await page.locator('#composer').inputValue(), 'kept while it is away');
    },

    async queue(page) {
      page.allowsFailures = true;
      await control('fill');
      await open(page, setting.narrow);
      await page.locator('#composer').fill('1 2 3');
      await page.keyboard.press('Enter');
      await page.getByText(/The server is busy/).first().waitFor({ timeout: 20_000 });
      await control('empty');
      await page.getByRole('button', { name: /Again|Try again/ }).waitFor({ timeout: 40_000 });
      assert.equal(await page.locator('.error').count(), 0);
    },

    async stop(page) {
      await open(page, setting.main);
      await askForMuch(page);
      // Enter that ends a composition does not send.
      await page.locator('#composer').fill('1 2');
      await page.locator('#composer').evaluate((area) => area.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true })));
      assert.equal(await page.locator('article').count(), 0);
      await page.locator('#composer').press('Shift+Enter');
      assert.equal(await page.locator('#composer').inputValue(), '1 2\n');
      await page.locator('#composer').press('Enter');
      await page.getByText('Writing').waitFor();
      await page.locator('#composer').press('Escape');
      await page.getByText('Stopped', { exact: true }).first().waitFor();
      // The server has stopped, too.
      await page.goto(`${setting.main}/ui/#/requests`);
      await page.getByRole('cell', { name: '499' }).first().waitFor();
    },
  };
};
