// The stored chats, and responses of the server. Plain data.

export interface ToolCall {
  name: string;
  arguments: unknown;
}

export interface LiveEvent {
  type: string; // "transition" or "compaction"
  from?: number;
  to?: number;
  context?: number;
  drop?: number;
  keep?: number;
  tokens?: number; // in the context at this moment
  at: number; // characters of the answer before the event
}

export interface Stats {
  requestId: string;
  prompt?: number; // tokens
  cached?: number; // tokens of the prompt
  written?: number;
  isAbout?: boolean; // the counts are estimates, because the answer was interrupted
  held?: number; // tokens in the context at the end, if isAbout
  context?: number; // the limit of the request
  firstMs?: number;
  promptMs?: number;
  decodeMs?: number;
  shortened?: string; // "9211->7150"
  reason?: string; // why the answer ended
  events: LiveEvent[];
}

export type Role = 'user' | 'assistant' | 'tool';

export interface Message {
  id: string;
  chat: string;
  parent: string; // '' for the first message
  role: Role;
  text: string;
  thinking?: string;
  thinkingMs?: number;
  tools?: ToolCall[];
  toolName?: string;
  images?: string[]; // base64, without a prefix
  state: 'done' | 'partial' | 'error' | 'stopped';
  error?: string;
  model?: string;
  group?: string; // shared by the answers of several models to one question
  stats?: Stats;
  created: number;
}

export interface Params {
  temperature?: number;
  top_k?: number;
  top_p?: number;
  min_p?: number;
  repeat_penalty?: number;
  seed?: number;
  num_predict?: number;
  stop?: string;
  think?: 'on' | 'off';
  format?: 'json' | 'schema';
  schema?: string;
  tools?: string;
  keepAlive?: string;
}

export interface Chat {
  id: string;
  title: string;
  models: string[]; // each question goes to all of these models
  system: string;
  params: Params;
  leaf: string; // the last message of the visible path
  pinned: boolean;
  created: number;
  updated: number;
}

export interface ModelRow {
  name: string;
  size: number;
  digest: string;
  modified_at: string;
  capabilities?: string[];
  details: {
    family?: string;
    parameter_size?: string;
    quantization_level?: string;
    context_length?: number;
    embedding_length?: number;
  };
}

export interface LoadedRow {
  name: string;
  size: number;
  expires_at: string;
  context_length: number;
  engine?: string;
}

export interface SpanRow {
  name: string;
  begin: number;
  end: number;
  attributes?: Record<string, unknown>;
}

export interface TraceHead {
  id: string;
  route: string;
  model?: string;
  began_at: string;
  duration: number; // ns
  status?: number;
}

export interface TraceFull extends TraceHead {
  node?: string;
  error?: string;
  spans: SpanRow[];
  left_out?: number;
}
