/* What Billow uses of Rust, behind plain C: the Jinja engine that renders the chat templates of
 * models.
 *
 * Ownership: a handle from billow_template_compile is freed by billow_template_free, a text that a
 * call filled in by billow_text_free (also when the call failed). Inputs are read during the call
 * only. Errors: every call that can fail returns a status; its message is one line of UTF-8.
 * Nothing unwinds into the caller. Threads: any thread may call anything; one handle may render on
 * many threads at once. Each call works on a thread of its own with a large stack, and is given up
 * when it exceeds its limits. */
#ifndef BILLOW_BRIDGE_H
#define BILLOW_BRIDGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum billow_status {
  BILLOW_OK = 0,
  BILLOW_INVALID = 1, /* the template or its input is wrong, or the template raised an exception */
  BILLOW_TOO_LARGE = 2, /* a limit was reached */
  BILLOW_FAILED = 3     /* no thread could be had, or a bug */
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

/* Renders with the members of a JSON object (at most 127 levels deep) as the template's variables.
 * The member "strftime_now", a text such as "2026-07-26T12:30:00", sets the clock of the function
 * of that name; without it the function tells local time. *text is the rendering, or on failure the
 * message. */
billow_status billow_template_render(const billow_template* handle, const char* input_json,
                                     size_t n_input_bytes, const billow_limits* limits,
                                     billow_text* text);

/* Both accept null. billow_text_free empties *text. */
void billow_template_free(billow_template* handle);
void billow_text_free(billow_text* text);

#ifdef __cplusplus
}
#endif

#endif
