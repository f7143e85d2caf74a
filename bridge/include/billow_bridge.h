/* What Billow uses of Rust, behind plain C: the Jinja engine that renders the chat templates of
 * models, and the engine that holds answers to a grammar.
 *
 * Ownership: a handle is freed by the function of its kind, a text that a call filled in by
 * billow_text_free (also when the call failed). Inputs are read during the call only. Errors: every
 * call that can fail returns a status; its message is one line of UTF-8. Nothing unwinds into the
 * caller. Threads: any thread may call anything; one template may render, and one vocabulary be
 * used, on many threads at once; a matcher is used by one thread at a time. Compiling and rendering
 * work on a thread of their own with a large stack, and are given up when they exceed their limits;
 * the steps of a matcher are bounded by themselves. */
#ifndef BILLOW_BRIDGE_H
#define BILLOW_BRIDGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum billow_status {
  BILLOW_OK = 0,
  BILLOW_INVALID = 1,    /* the input is wrong, or the template raised an exception */
  BILLOW_TOO_LARGE = 2,  /* a limit was reached */
  BILLOW_FAILED = 3,     /* no thread could be had, or a bug */
  BILLOW_UNSUPPORTED = 4 /* well-formed, but it asks for what is not there */
} billow_status;

/* UTF-8, not terminated by a zero. data is null when n_bytes is 0. */
typedef struct billow_text {
  char* data;
  size_t n_bytes;
} billow_text;

/* What one call may use. */
typedef struct billow_limits {
  uint64_t n_instructions; /* of the template's code */
  uint64_t memory_bytes;   /* held at once, the result included */
  uint64_t time_ms;
} billow_limits;

typedef struct billow_template billow_template;

/* Compiles a chat template. On success *result is a new handle and *message empty; else *result is
 * null and *message says what is wrong, beginning with "line N: " where a line is known. */
billow_status billow_template_compile(const char* source, size_t n_source_bytes,
                                      const billow_limits* limits, billow_template** result,
                                      billow_text* message);

/* Renders with the members of a JSON object (at max 127 levels deep) as the template's variables.
 * The member "strftime_now", a text such as "2026-07-26T12:30:00", sets the clock of the function
 * of that name; without it the function tells local time. *text is the rendering, or on failure the
 * message. */
billow_status billow_template_render(const billow_template* handle, const char* input_json,
                                     size_t n_input_bytes, const billow_limits* limits,
                                     billow_text* text);

/* Both accept null. billow_text_free empties *text. */
void billow_template_free(billow_template* handle);
void billow_text_free(billow_text* text);

/* Grammars. */

typedef enum billow_grammar_kind {
  BILLOW_JSON_OBJECT = 0, /* any JSON object; no text */
  BILLOW_JSON_SCHEMA = 1,
  BILLOW_REGEX = 2,
  BILLOW_LARK = 3,
  BILLOW_GBNF = 4
} billow_grammar_kind;

typedef struct billow_grammar {
  billow_grammar_kind kind;
  const char* text; /* any bytes; what is not UTF-8 is refused */
  size_t n_bytes;
} billow_grammar;

/* The tokens of a model. */
typedef struct billow_tokens {
  size_t n_tokens;
  const char* bytes;       /* of all tokens, one behind the other */
  const uint32_t* n_bytes; /* of each; 0: a control token, which no grammar allows */
  const uint32_t* ends;    /* tokens that end a text, at min one */
  size_t n_ends;
  /* Cuts a text of any bytes into tokens as the model saw it in training: fills in up to `capacity`
   * of them and returns how many there are; 0 where it cannot. Called by any thread as long as the
   * vocabulary lives, and must not unwind. Null: the longest tokens are taken. */
  size_t (*encode)(const void* context, const char* text, size_t n_bytes, uint32_t* tokens,
                   size_t capacity);
  const void* context;
} billow_tokens;

typedef struct billow_vocabulary billow_vocabulary;
typedef struct billow_matcher billow_matcher;

/* Whether a grammar can be compiled, without the tokens of a model. */
billow_status billow_grammar_check(const billow_grammar* grammar, const billow_limits* limits,
                                   billow_text* message);

/* Takes up to a second and some 0.5 kB a token. *result is null where it fails. */
billow_status billow_vocabulary_create(const billow_tokens* tokens, billow_vocabulary** result,
                                       billow_text* message);
/* Matchers of it may live on. */
void billow_vocabulary_free(billow_vocabulary* vocabulary);

/* Compiles a grammar. *result stands at its beginning; null where it fails. */
billow_status billow_matcher_create(const billow_vocabulary* vocabulary,
                                    const billow_grammar* grammar, const billow_limits* limits,
                                    billow_matcher** result, billow_text* message);
/* Another one that stands where `matcher` does. */
billow_status billow_matcher_clone(const billow_matcher* matcher, billow_matcher** result,
                                   billow_text* message);
void billow_matcher_free(billow_matcher* matcher);

/* A step that fails leaves a matcher that fails at all steps: BILLOW_TOO_LARGE where the grammar
 * has become too complex.
 *
 * Sets in n_words words, 32 tokens each and the lowest bit first, the tokens that may come next,
 * and clears all others. */
billow_status billow_matcher_mask(billow_matcher* matcher, uint32_t* words, size_t n_words,
                                  billow_text* message);
billow_status billow_matcher_consume(billow_matcher* matcher, const uint32_t* tokens,
                                     size_t n_tokens, billow_text* message);
/* How many of the tokens, from the first on, may come next. */
billow_status billow_matcher_validate(billow_matcher* matcher, const uint32_t* tokens,
                                      size_t n_tokens, size_t* n_allowed, billow_text* message);
/* The tokens that must come next: fills in up to `capacity` of them; *n_tokens is how many there
 * are. Consumes none. */
billow_status billow_matcher_forced(billow_matcher* matcher, uint32_t* tokens, size_t capacity,
                                    size_t* n_tokens, billow_text* message);
/* *accepts: the text may end here, 0 or 1. */
billow_status billow_matcher_accepts(billow_matcher* matcher, int* accepts, billow_text* message);
/* Whether the text can only end here, or the matcher has failed: 0 or 1. */
int billow_matcher_stopped(const billow_matcher* matcher);
billow_status billow_matcher_reset(billow_matcher* matcher, billow_text* message);

/* All of billow_..._free accept null. */

#ifdef __cplusplus
}
#endif

#endif
