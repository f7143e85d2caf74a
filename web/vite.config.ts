import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';
import { licences } from './tools/licences';

export default defineConfig({
  plugins: [svelte(), licences()],
  base: './', // works behind a path prefix
  publicDir: 'public',
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rollupOptions: { output: { entryFileNames: 'assets/[name]-[hash].js', chunkFileNames: 'assets/[name]-[hash].js' } },
  },
  // A development server beside a running `billow serve`.
  server: { proxy: Object.fromEntries(['/api', '/v1', '/rerank', '/metrics'].map((path) => [path, 'http://127.0.0.1:11434'])) },
  test: { include: ['src/**/*.test.ts'], environment: 'node', testTimeout: 120_000, hookTimeout: 120_000 },
});
