// What several cases of page.mjs do.

export async function ask(page, text) {
  await page.locator('#composer').fill(text);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Again' }).first().waitFor({ timeout: 20_000 });
}

// A form that no answer reaches soon: these models end by chance, and an answer that repeats a token for long is
// ended.
export async function askForMuch(page) {
  await page.getByRole('button', { name: 'Options' }).click();
  await page.getByLabel('Most tokens of an answer').fill('30000');
  await page.getByLabel('Form of the answer').selectOption('JSON by a schema');
  await page.getByLabel('JSON schema').fill('{"type":"array","items":{"type":"string","pattern":"^[a-z]{4,12}$"},"minItems":4000}');
  await page.getByRole('button', { name: 'OK' }).click();
}

export async function theme(page, name) {
  await page.emulateMedia({ colorScheme: name });
  await page.waitForFunction((wanted) => document.documentElement.dataset.theme === wanted, name);
}
