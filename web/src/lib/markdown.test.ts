import { describe, expect, it } from 'vitest';
import { GrowingMarkdown, decodeEntities, isClosed, lex, safeLink, type Token } from './markdown';

const DOCUMENT = `# Title

A paragraph with **bold**, \`code\` and [a link](https://example.org).

- one
- two
  - three

1. first

2. second

\`\`\`js
const a = 1;

const b = 2;
\`\`\`

| a | b |
|---|--:|
| 1 | 2 |

> quote
> goes on

$$
x^2
$$

The end, $y$ and \\(z\\).
`;

const plain = (tokens: Token[]) => JSON.stringify(tokens.filter((token) => token.type !== 'space'));

describe('a text that grows', () => {
  for (const step of [1, 3, 7, 50]) {
    it(`has the tokens of the whole text, ${step} characters at a time`, () => {
      const growing = new GrowingMarkdown();
      for (let end = step; end < DOCUMENT.length + step; end += step) growing.update(DOCUMENT.slice(0, end), false);
      expect(plain(growing.blocks.map((block) => block.token))).toBe(plain(lex(DOCUMENT)));
      growing.update(DOCUMENT, true);
      expect(plain(growing.blocks.map((block) => block.token))).toBe(plain(lex(DOCUMENT)));
    });
  }

  it('keeps the blocks that are complete as the same objects', () => {
    const growing = new GrowingMarkdown();
    const first = growing.update(DOCUMENT.slice(0, 200), false)[0];
    for (let end = 201; end < DOCUMENT.length; end += 1) expect(growing.update(DOCUMENT.slice(0, end), false)[0]).toBe(first);
  });

  it('restarts with another text', () => {
    const growing = new GrowingMarkdown();
    growing.update('a\n\nb\n\nc\n\nd', false);
    expect(plain(growing.update('other', false).map((block) => block.token))).toBe(plain(lex('other')));
  });

  it('has unique keys', () => {
    const growing = new GrowingMarkdown();
    for (let end = 1; end < DOCUMENT.length; end += 11) {
      const ids = growing.update(DOCUMENT.slice(0, end), false).map((block) => block.id);
      expect(new Set(ids).size).toBe(ids.length);
    }
  });
});

describe('untrusted text', () => {
  it('allows only links to the web and to mail', () => {
    expect(safeLink('https://a.example/x')).toBe('https://a.example/x');
    expect(safeLink('mailto:a@b.example')).toBe('mailto:a@b.example');
    for (const bad of ['javascript:alert(1)', ' JaVaScRiPt:alert(1)', 'data:text/html,x', 'vbscript:x', 'file:///etc/passwd', '/relative', '#x', '', 'java\nscript:x'])
      expect(safeLink(bad), bad).toBeUndefined();
  });

  it('decodes entities to text', () => {
    expect(decodeEntities('&lt;b&gt; &amp;amp; &#65;&#x42; &nbsp;&unknown; &')).toBe('<b> &amp; AB \u00a0&unknown; &');
    expect(decodeEntities('&#0;&#xd800;&#9999999;')).toBe('\ufffd\ufffd\ufffd');
  });

  it('does not take prices for formulas', () => {
    const types = (text: string) => JSON.stringify(lex(text)).includes('inlineMath');
    expect(types('It costs $5 and $6.')).toBe(false);
    expect(types('The sum $a+b$ is here.')).toBe(true);
    expect(types('A lone $ sign.')).toBe(false);
  });
});

describe('text with many levels', () => {
  const marks: [string, string][] = [['quotes', '>'], ['spaced quotes', '> '], ['lists', '- '], ['numbers', '1. '], ['a mix', '> * ']];
  for (const [name, mark] of marks)
    it(`stays text: ${name}`, () => {
      for (const n of [300, 3000, 10_000]) expect(lex(`before\n\n${mark.repeat(n)}x`)).toEqual([{ type: 'raw', raw: `before\n\n${mark.repeat(n)}x`, text: `before\n\n${mark.repeat(n)}x` }]);
    });
  it('has its quotes and lists if there are few', () => {
    expect(lex(`${'> '.repeat(20)}x`)[0]?.type).toBe('blockquote');
    expect(lex('-'.repeat(200))[0]?.type).toBe('hr');
  });
});

it('detects whether a code block is closed', () => {
  const code = (text: string) => isClosed(lex(text)[0] as Token);
  expect(code('```js\na')).toBe(false);
  expect(code('```js\na\n```')).toBe(true);
  expect(code('```')).toBe(false);
  expect(code('    indented')).toBe(true);
});
