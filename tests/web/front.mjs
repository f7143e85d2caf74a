// A proxy between the page and the real server for some cases of page.mjs, and texts that models
// may write.
import http from 'node:http';

// Starts a proxy of the real server. If `chat` is given, it responds to /api/chat and
// /api/generate: for texts and faults that a model does not produce on demand. Plans are then made
// up, too, because the real model may not have the capabilities of the case. `capabilities`
// replaces the capabilities of the model "writer". `prefix` is the path of the whole server.
// `routes` has functions (body, response) by path, which respond instead of the server.
export async function front(main, chat, capabilities, prefix = '', routes = {}) {
  const server = http.createServer((request, response) => {
    if (!request.url.startsWith(`${prefix}/`)) {
      response.writeHead(404).end();
      return;
    }
    request.url = request.url.slice(prefix.length);
    if (chat && request.url.startsWith('/api/trace/web-')) {
      response.writeHead(200, { 'Content-Type': 'application/json' });
      response.end('{"spans":[]}');
      return;
    }
    if (routes[request.url]) {
      let body = '';
      request.on('data', (piece) => { body += piece; });
      request.on('end', () => routes[request.url](body ? JSON.parse(body) : undefined, response));
      return;
    }
    if (chat && request.url === '/api/plan') {
      response.writeHead(200, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify(planned()));
      return;
    }
    if (chat && ['/api/chat', '/api/generate'].includes(request.url)) {
      let body = '';
      request.on('data', (piece) => { body += piece; });
      request.on('end', () => {
        const asked = JSON.parse(body);
        if (!asked._debug_render_only) return void chat(asked, response);
        response.writeHead(200, { 'Content-Type': 'application/json' });
        response.end(JSON.stringify({ _debug_info: { rendered_template: '<user>Go<answer>' } }));
      });
      return;
    }
    const target = new URL(request.url, main);
    const headers = { ...request.headers, host: target.host };
    if (headers.origin) headers.origin = main;
    const onward = http.request(target, { method: request.method, headers }, (reply) => {
      if (capabilities && request.url === '/api/tags') {
        let text = '';
        reply.on('data', (piece) => { text += piece; });
        reply.on('end', () => {
          const tags = JSON.parse(text);
          for (const model of tags.models) if (model.name === 'writer:latest') model.capabilities = capabilities;
          response.writeHead(200, { 'Content-Type': 'application/json' });
          response.end(JSON.stringify(tags));
        });
        return;
      }
      response.writeHead(reply.statusCode, reply.headers);
      reply.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}${prefix}`, close: () => { server.closeAllConnections(); server.close(); } };
}

export const MIB = 1 << 20;

// A response of /api/plan, with other fields and another memory.
export const planned = (more = {}, memory = {}) => ({
  model: 'writer:latest', loaded: true, prompt_tokens: 7150, prompt_tokens_full: 7150, context: 8192, max_context: 8192, ...more,
  memory: { weights_bytes: 90 * MIB, scratch_bytes: 8 * MIB, kv_bytes: 2 * MIB, total_bytes: 100 * MIB, budget_bytes: 500 * MIB, free_bytes: 400 * MIB, fits: true, ...memory },
});

export const line = (content, more = {}) => `${JSON.stringify({ model: 'writer', response: content, message: { role: 'assistant', content }, done: false, ...more })}\n`;
export const end = (more = {}) => `${JSON.stringify({ model: 'writer', message: { role: 'assistant', content: '' }, done: true, done_reason: 'stop', prompt_eval_count: 1515, prompt_cached_count: 1200,
  eval_count: 412, eval_duration: 10_842_000_000, prompt_eval_duration: 900_000_000, ...more })}\n`;
export function telling(text, more = {}) {
  return (_request, response) => {
    response.writeHead(200, { 'Content-Type': 'application/x-ndjson', 'X-Billow-Context': '8192' });
    for (let at = 0; at < text.length; at += 7) response.write(line(text.slice(at, at + 7)));
    response.end(end(more));
  };
}

export const RICH = `Here is a short answer with **what people use**.

## A table and some code

| option | default | what it does |
|---|---:|---|
| \`--parallel\` | 8 | requests that run in parallel |
| \`--keep-alive\` | 5m | how long a model stays |

\`\`\`python
def greet(name: str) -> str:
    """Say hello."""
    return f"Hello, {name}!"  # a comment
\`\`\`

1. First, the mean is $\\bar x = \\frac{1}{n}\\sum_{i=1}^{n} x_i$.
2. Then, the energy:

$$E = mc^2$$

> Quotes stand apart, and [links](https://example.org/) open in a new tab.

- [x] done
- [ ] not yet
`;

export const HOSTILE = `<img src=x onerror="window.pwned=1"> <script>window.pwned=2</script>

[click](javascript:window.pwned=3) ![leak](https://evil.example/leak.png) ![x](javascript:alert(1))

<iframe src="https://evil.example/"></iframe>

[a](data:text/html,<script>window.pwned=4</script>) <a href="javascript:window.pwned=5">b</a> &lt;b&gt;

$\\href{javascript:window.pwned=6}{x}$ $\\includegraphics{https://evil.example/y.png}$

\`\`\`html
<script>window.pwned=7</script>
\`\`\`
`;
