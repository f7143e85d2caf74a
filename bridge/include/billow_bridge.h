/* The Rust parts of Billow, with a C interface: the Jinja engine that renders the chat templates of
 * models, and the engine that constrains answers to a grammar.
 *
 * Ownership: the function of its kind frees a handle. billow_text_free frees a text that a call has
 * filled in, also after an error. A call reads its inputs only until it returns.
 *
 * Errors: every call that can fail returns a status and a message of one line of UTF-8. No
 * exception or panic leaves the library.
 *
 * Threads: all functions are thread-safe. Several threads may render one template or use one
 * vocabulary at the same time. Only one thread at a time may use a matcher. Compiling and rendering
 * run on a separate thread with a large stack, and end with an error if they exceed their limits.
 * The steps of a matcher have their own limits. */
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
  BILLOW_FAILED = 3,     /* no thread is available, or a bug */
  BILLOW_UNSUPPORTED = 4 /* the input is well-formed, but asks for an unsupported feature */
} billow_status;

/* UTF-8, not terminated by a zero. data is null when n_bytes is 0. */
typedef struct billow_text {
  char* data;
  size_t n_bytes;
} billow_text;

/* The limits of one call. */
typedef struct billow_limits {
  uint64_t n_instructions; /* of the template's code */
  uint64_t memory_bytes;   /* max memory in use at the same time, including the result */
  uint64_t time_ms;
} billow_limits;

typedef struct billow_template billow_template;

/* Compiles a chat template. After a success, *result is a new handle and *message is empty. After
 * an error, *result is null and *message describes the error. If the line is known, the message
 * begins with "line N: ". */
billow_status billow_template_compile(const char* source, size_t n_source_bytes,
                                      const billow_limits* limits, billow_template** result,
                                      billow_text* message);

/* Renders the template with the members of a JSON object as its variables. The object has at most
 * 127 levels. The member "strftime_now" sets the clock of the function with that name, for example
 * "2026-07-26T12:30:00". Without this member the function returns local time. *text is the rendered
 * text, or the message after an error. */
billow_status billow_template_render(const billow_template* handle, const char* input_json,
                                     size_t n_input_bytes, const billow_limits* limits,
                                     billow_text* text);

/* Both functions accept null. billow_text_free empties *text. */
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
  const char* text; /* any bytes; invalid UTF-8 is an error */
  size_t n_bytes;
} billow_grammar;

/* The tokens of a model. */
typedef struct billow_tokens {
  size_t n_tokens;
  const char* bytes;       /* the bytes of all tokens, one after the other */
  const uint32_t* n_bytes; /* per token; 0: a control token, which no grammar allows */
  const uint32_t* ends;    /* tokens that end a text, at least one */
  size_t n_ends;
  /* Splits a text of any bytes into tokens as in the model's training. Fills in up to `capacity`
   * tokens and returns the number of tokens, or 0 if it cannot split the text. Any thread may call
   * the function during the lifetime of the vocabulary. It must not throw. If the function is null,
   * the longest tokens are used. */
  size_t (*encode)(const void* context, const char* text, size_t n_bytes, uint32_t* tokens,
                   size_t capacity);
  const void* context;
} billow_tokens;

typedef struct billow_vocabulary billow_vocabulary;
typedef struct billow_matcher billow_matcher;

/* Checks that a grammar compiles, without the tokens of a model. */
billow_status billow_grammar_check(const billow_grammar* grammar, const billow_limits* limits,
                                   billow_text* message);

/* Creates a vocabulary. Needs up to a second, and about 0.5 kB per token. *result is null after an
 * error. */
billow_status billow_vocabulary_create(const billow_tokens* tokens, billow_vocabulary** result,
                                       billow_text* message);
/* Frees a vocabulary. Its matchers remain valid. */
void billow_vocabulary_free(billow_vocabulary* vocabulary);

/* Compiles a grammar. *result is a matcher at the beginning of the grammar, or null after an error.
 */
billow_status billow_matcher_create(const billow_vocabulary* vocabulary,
                                    const billow_grammar* grammar, const billow_limits* limits,
                                    billow_matcher** result, billow_text* message);
/* Creates a second matcher with the same state. */
billow_status billow_matcher_clone(const billow_matcher* matcher, billow_matcher** result,
                                   billow_text* message);
void billow_matcher_free(billow_matcher* matcher);

/* After a step fails, all later steps of the matcher fail, too. The status is BILLOW_TOO_LARGE if
 * the grammar has become too complex.
 *
 * billow_matcher_mask sets the bits of the tokens that may come next, and clears all other bits.
 * There are n_words words of 32 tokens; the lowest bit is the first token. */
billow_status billow_matcher_mask(billow_matcher* matcher, uint32_t* words, size_t n_words,
                                  billow_text* message);
billow_status billow_matcher_consume(billow_matcher* matcher, const uint32_t* tokens,
                                     size_t n_tokens, billow_text* message);
/* Counts the tokens, from the first one on, that may come next. */
billow_status billow_matcher_validate(billow_matcher* matcher, const uint32_t* tokens,
                                      size_t n_tokens, size_t* n_allowed, billow_text* message);
/* Returns the tokens that must come next. Fills in up to `capacity` tokens; *n_tokens is the number
 * of tokens. Consumes no token. */
billow_status billow_matcher_forced(billow_matcher* matcher, uint32_t* tokens, size_t capacity,
                                    size_t* n_tokens, billow_text* message);
/* *accepts is 1 if the text may end here, else 0. */
billow_status billow_matcher_accepts(billow_matcher* matcher, int* accepts, billow_text* message);
/* Returns 1 if the text can only end here or the matcher has failed, else 0. */
int billow_matcher_stopped(const billow_matcher* matcher);
billow_status billow_matcher_reset(billow_matcher* matcher, billow_text* message);

/* All functions billow_..._free accept null. */

#ifdef __cplusplus
}
#endif

#endif
