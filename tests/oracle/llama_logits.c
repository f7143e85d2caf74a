// llama_logits MODEL TEXT N TOKENS LOGITS [f32|default [CONTEXT]]: computes llama.cpp's logits for
// the first N tokens of a text file. Writes TOKENS (int32) and LOGITS (float32 [n][n_vocab]). "f32"
// is the most exact mode: a float KV cache and no repacked weights. "default" uses the settings of
// llama.cpp's programs. If the name of TEXT ends in .i32, TEXT holds token ids. check_reference.sh
// builds and runs this program.
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char* what) {
  fprintf(stderr, "llama_logits: %s\n", what);
  exit(1);
}

static void quiet(enum ggml_log_level level, const char* text, void* data) {
  (void)data;
  if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static char* read_file(const char* path, long* size) {
  FILE* f = fopen(path, "rb");
  if (!f) fail("cannot read the text");
  fseek(f, 0, SEEK_END);
  *size = ftell(f);
  rewind(f);
  char* bytes = malloc((size_t)*size + 1);
  if (!bytes || fread(bytes, 1, (size_t)*size, f) != (size_t)*size) fail("cannot read the text");
  fclose(f);
  return bytes;
}

static void write_file(const char* path, const void* data, size_t size, size_t n) {
  FILE* f = fopen(path, "wb");
  if (!f || fwrite(data, size, n, f) != n || fclose(f) != 0) fail("cannot write a result");
}

static llama_token* read_tokens(const struct llama_vocab* vocab, const char* path, int32_t* n) {
  long size;
  char* text = read_file(path, &size);
  const size_t length = strlen(path);
  if (length > 4 && strcmp(path + length - 4, ".i32") == 0) {
    *n = (int32_t)(size / 4);
    return (llama_token*)text;
  }
  llama_token* tokens = malloc(sizeof(llama_token) * ((size_t)size + 8));
  *n = llama_tokenize(vocab, text, (int32_t)size, tokens, (int32_t)size + 8, true, false);
  if (*n < 0) fail("cannot tokenize the text");
  return tokens;
}

int main(int argc, char** argv) {
  if (argc < 6) fail("usage: llama_logits MODEL TEXT N TOKENS LOGITS [f32|default [CONTEXT]]");
  const int exact = argc > 6 && strcmp(argv[6], "f32") == 0;
  llama_log_set(quiet, NULL);
  ggml_backend_load_all();
  struct llama_model_params model_params = llama_model_default_params();
  model_params.use_extra_bufts = !exact;
  struct llama_model* model = llama_model_load_from_file(argv[1], model_params);
  if (!model) fail("cannot load the model");
  const struct llama_vocab* vocab = llama_model_get_vocab(model);
  int32_t n;
  llama_token* tokens = read_tokens(vocab, argv[2], &n);
  if (n > atoi(argv[3])) n = atoi(argv[3]);

  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = argc > 7 ? (uint32_t)atoi(argv[7]) : (uint32_t)n;
  params.n_batch = (uint32_t)n;
  params.n_ubatch = (uint32_t)n;
  params.n_threads = params.n_threads_batch = 2;
  if (exact) {
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  }
  struct llama_context* context = llama_init_from_model(model, params);
  if (!context) fail("cannot make a context");
  struct llama_batch batch = llama_batch_init(n, 0, 1);
  batch.n_tokens = n;
  for (int32_t i = 0; i < n; ++i) {
    batch.token[i] = tokens[i];
    batch.pos[i] = i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  if (llama_decode(context, batch) != 0) fail("cannot decode");
  write_file(argv[4], tokens, sizeof(llama_token), (size_t)n);
  write_file(argv[5], llama_get_logits(context), sizeof(float),
             (size_t)n * (size_t)llama_vocab_n_tokens(vocab));
  llama_batch_free(batch);
  llama_free(context);
  llama_model_free(model);
  return 0;
}
