// Parses Markdown into tokens, incrementally. Text of a model never becomes HTML: components render
// the tokens, and HTML tokens are shown as text.
import { Marked, type Token, type TokenizerAndRendererExtension } from 'marked';

export type { Token };

// "$x$" and "\(x\)" in a line; "$$x$$" and "\[x\]" also as blocks.
const inlineMath: TokenizerAndRendererExtension = {
  name: 'inlineMath',
  level: 'inline',
  start: (text) => {
    const at = text.search(/\$|\\\(|\\\[/);
    return at < 0 ? undefined : at;
  },
  tokenizer(text) {
    const found =
      /^\$\$([^$\n]+?)\$\$/.exec(text) ??
      /^\\\(([\s\S]+?)\\\)/.exec(text) ??
      /^\\\[([\s\S]+?)\\\]/.exec(text) ??
      /^\$(?![\s$])((?:\\.|[^$\n\\])+?)(?<![\s\\])\$(?![\d$])/.exec(text);
    if (!found) return undefined;
    return { type: 'inlineMath', raw: found[0], text: found[1] ?? '' };
  },
};

const blockMath: TokenizerAndRendererExtension = {
  name: 'blockMath',
  level: 'block',
  start: (text) => {
    const at = text.search(/(^|\n)(\$\$|\\\[)/);
    return at < 0 ? undefined : at;
  },
  tokenizer(text) {
    const found = /^\$\$\s*\n?([\s\S]+?)\$\$[ \t]*(?:\n|$)/.exec(text) ?? /^\\\[\s*\n?([\s\S]+?)\\\][ \t]*(?:\n|$)/.exec(text);
    if (!found) return undefined;
    return { type: 'blockMath', raw: found[0], text: (found[1] ?? '').trim() };
  },
};

const marked = new Marked({ gfm: true });
marked.use({ extensions: [inlineMath, blockMath] });

// Deeper levels are shown as text: each level is a component in a component.
export const MAX_LEVELS = 32;
// A line that begins with 100 marks of quotes and lists is no text of a person.
const DEEP = /^(?:[ \t]*(?:>|(?:[-*+]|\d{1,9}[.)])[ \t])){100}/m;

// The lexer recurses, so text with too many levels becomes one token with the raw text.
export function lex(text: string): Token[] {
  const raw = [{ type: 'raw', raw: text, text }];
  if (DEEP.test(text)) return raw;
  try {
    return marked.lexer(text);
  } catch (error) {
    if (error instanceof RangeError) return raw;
    throw error;
  }
}

export interface Block {
  id: number;
  token: Token;
  isOpen: boolean; // may still grow
}

// The blocks of a growing text. All blocks except the last two are frozen: they stay the same
// objects, so they are not parsed or drawn again.
export class GrowingMarkdown {
  blocks: Block[] = [];
  #frozen: Block[] = [];
  #nFrozen = 0; // characters
  #text = '';
  #nextId = 0;

  // `text` is the whole text. If it does not continue the previous text, it is parsed from the
  // beginning.
  update(text: string, isWhole: boolean): Block[] {
    if (!text.startsWith(this.#text) || isWhole) this.#restart();
    this.#text = text;
    const tokens = lex(text.slice(this.#nFrozen));
    if (!isWhole) {
      const isText = (token: Token) => token.type !== 'space';
      const solid = tokens.flatMap((token, index) => (isText(token) ? [index] : []));
      const cut = solid.length > 2 ? (solid[solid.length - 2] ?? 0) : 0;
      const closed = tokens.slice(0, cut);
      // Tokens lose tabs and Windows line ends, so their lengths are used only if the texts are
      // equal.
      const nRaw = closed.reduce((sum, token) => sum + token.raw.length, 0);
      if (cut > 0 && text.slice(this.#nFrozen, this.#nFrozen + nRaw) === closed.map((token) => token.raw).join('')) {
        for (const token of closed) this.#frozen.push({ id: this.#nextId++, token, isOpen: false });
        this.#nFrozen += nRaw;
        tokens.splice(0, cut);
      }
    }
    const open = tokens.map((token, index) => ({ id: this.#nextId + index, token, isOpen: !isWhole && index === tokens.length - 1 }));
    this.blocks = [...this.#frozen, ...open];
    return this.blocks;
  }

  #restart(): void {
    this.#frozen = [];
    this.#nFrozen = 0;
    this.#nextId = 0;
  }
}

// Returns the link if its scheme is allowed; undefined for others, like "javascript:".
export function safeLink(href: string): string | undefined {
  try {
    const link = new URL(href);
    return ['http:', 'https:', 'mailto:'].includes(link.protocol) ? link.href : undefined;
  } catch {
    return undefined;
  }
}

const ENTITIES: Record<string, string> = {
  amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', copy: '©', reg: '®', hellip: '…', mdash: '—', ndash: '–',
  lsquo: '‘', rsquo: '’', ldquo: '“', rdquo: '”', times: '×', deg: '°', rarr: '→', larr: '←', le: '≤', ge: '≥', ne: '≠', euro: '€',
};

// Decodes entities like Markdown: "&lt;" becomes "<". The result is text, never HTML.
export function decodeEntities(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));/g, (all, decimal, hex, name) => {
    if (name) return ENTITIES[name as string] ?? all;
    const point = decimal ? parseInt(decimal as string, 10) : parseInt(hex as string, 16);
    return point > 0 && point <= 0x10ffff && !(point >= 0xd800 && point < 0xe000) ? String.fromCodePoint(point) : '\ufffd';
  });
}

// Returns whether a fenced block has its end.
export function isClosed(token: Token): boolean {
  if (token.type !== 'code') return true;
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(token.raw);
  if (!fence) return true;
  const last = token.raw.trimEnd().split('\n');
  return last.length > 1 && (last[last.length - 1] ?? '').trim().startsWith(fence[1] ?? '```');
}
