// The licences of the packages that are part of the page, as one text file next to it.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Plugin } from 'vite';

const FOLDER = /^(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//;

export function licences(): Plugin {
  return {
    name: 'licences',
    generateBundle(_, bundle) {
      const folders = new Map<string, string>();
      for (const file of Object.values(bundle)) {
        const ids = file.type === 'chunk' ? Object.keys(file.modules) : file.originalFileNames;
        for (const id of ids) {
          const found = FOLDER.exec(id.replace(/^\0/, ''));
          if (found?.[1] && found[2]) folders.set(found[2], found[1]);
        }
      }
      const parts = [...folders].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, folder]) => {
        const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string; license?: string };
        const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
        if (!file || !existsSync(join(folder, file))) throw new Error(`${name} has no file with its licence`);
        return `${name} ${version} (${license ?? 'see below'})\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`;
      });
      this.emitFile({ type: 'asset', fileName: 'licences.txt', source: `Libraries in the web page of Billow.\n\n${parts.join(`\n${'-'.repeat(80)}\n\n`)}` });
    },
  };
}
