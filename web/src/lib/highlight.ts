// Highlights code in common languages. Loaded on first use.
import { createLowlight } from 'lowlight';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import markdown from 'highlight.js/lib/languages/markdown';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';

const lowlight = createLowlight({ bash, c, cpp, css, diff, go, java, javascript, json, markdown, python, rust, sql, typescript, xml, yaml });
lowlight.registerAlias({ bash: ['console', 'shell', 'shell-session'], typescript: ['tsx'], javascript: ['jsx'], xml: ['svelte', 'vue'] });

export interface Piece {
  className: string;
  text: string;
}

interface Node {
  type: string;
  value?: string;
  properties?: { className?: string[] };
  children?: Node[];
}

// Returns the pieces in order; undefined if the language is unknown.
export function highlight(text: string, language: string): Piece[] | undefined {
  if (!lowlight.registered(language)) return undefined;
  const pieces: Piece[] = [];
  const walk = (node: Node, className: string): void => {
    if (node.type === 'text') pieces.push({ className, text: node.value ?? '' });
    const own = node.properties?.className?.[0] ?? className;
    for (const child of node.children ?? []) walk(child, own);
  };
  walk(lowlight.highlight(language, text) as Node, '');
  return pieces;
}
