// Cases of page.mjs for two tabs with one chat.
import assert from 'node:assert/strict';
import { end, line } from './front.mjs';
import { until, words } from './steps.mjs';

// Opens the chat of `page` in a second tab. A fault of that tab fails the case.
async function second(page) {
  const other = await page.context().newPage();
  other.on('pageerror', (error) => page.emit('pageerror', error));
  await other.goto(page.url());
  await other.locator('article.user').waitFor();
  return other;
}

async function ask(page, text) {
  await page.locator('#composer').fill(text);
  await page.keyboard.press('Enter');
}

export const tabCases = ({ front, open }) => ({
  async tabs(page) {
    // The second tab asks something else while the first one answers: the first tab follows, keeps
    // its answer, and sends the whole conversation.
    const asked = [];
    const server = await front((body, response) => {
      asked.push(body.messages.map((message) => message.content));
      if (asked.length === 1) return words(body, response);
      response.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
      response.write(line(`Answer ${asked.length}.`));
      response.end(end());
    });
    await open(page, server.url);
    await ask(page, 'the first');
    await page.getByText('word20 ').waitFor();
    const other = await second(page);
    await other.getByRole('button', { name: 'Edit' }).click();
    await other.locator('.edit textarea').fill('the second');
    await other.getByRole('button', { name: 'Send again' }).click();
    await other.getByText('Answer 2.').waitFor();
    await page.locator('.user').getByText('the second').waitFor();
    await page.getByText('Answer 2.').waitFor();
    await ask(page, 'the third');
    await page.getByText('Answer 3.').waitFor();
    assert.deepEqual(asked[2], ['the second', 'Answer 2.', 'the third']);
    await page.locator('.user').first().getByRole('button', { name: 'Previous version' }).click();
    await page.getByText('word20 ').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('Stopped', { exact: true }).first().waitFor();
    await page.getByText('word20 ').waitFor();
    server.close();
  },

  async elsewhere(page) {
    // The second tab shows that the first one writes. When that ends, it shows the whole answer.
    const server = await front(words);
    await open(page, server.url);
    await ask(page, 'Count');
    await page.getByText('word20 ').waitFor();
    const other = await second(page);
    await other.getByText('Another tab is writing this answer').waitFor();
    await other.getByText('word60 ').waitFor();
    assert.equal(await other.getByRole('button', { name: /Continue|Again/ }).count(), 0);
    assert.equal(await other.getByText('This answer is not complete').count(), 0);
    await page.getByRole('button', { name: 'Stop' }).click();
    await other.getByRole('button', { name: 'Continue' }).waitFor();
    await other.getByText('Stopped', { exact: true }).first().waitFor();
    assert.equal(await other.getByText('Another tab is writing').count(), 0);
    // A tab that closes writes no more.
    await page.getByRole('button', { name: 'Continue' }).click();
    await other.getByText('Another tab is writing this answer').waitFor();
    await page.goto('about:blank');
    await other.getByText('Another tab is writing').waitFor({ state: 'detached' });
    // Nor does a tab that crashes.
    const third = await second(other);
    await other.getByRole('button', { name: 'Continue' }).click();
    await third.getByText('Another tab is writing this answer').waitFor();
    const crash = await page.context().newCDPSession(other);
    crash.send('Page.crash').catch(() => undefined); // there is no response
    await third.getByText('Another tab is writing').waitFor({ state: 'detached' });
    await third.getByRole('button', { name: 'Continue' }).waitFor();
    server.close();
  },

  async removed(page) {
    // A chat that another tab deletes is not answered to the end.
    let hasLeft = false;
    const server = await front((body, response) => {
      response.on('close', () => { hasLeft = true; });
      words(body, response);
    });
    await open(page, server.url);
    await ask(page, 'Count');
    await page.getByText('word20 ').waitFor();
    const other = await second(page);
    await other.getByRole('button', { name: 'More for this chat: Count' }).click();
    await other.getByRole('button', { name: 'Delete', exact: true }).click();
    await other.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('This page does not exist').waitFor();
    await until(page, () => hasLeft, 'the answer ends');
    await page.waitForTimeout(300);
    assert.equal(await page.locator('nav.chats li').count(), 0);
    server.close();
  },
});
