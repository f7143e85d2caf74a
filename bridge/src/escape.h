/* A jump out of work that cannot continue and cannot be unwound. session.rs uses it after a refused
 * allocation. The frames between the two calls are dropped without running any of their code.
 * Thread-safe; both calls must be on the same thread. */
#ifndef BILLOW_ESCAPE_H
#define BILLOW_ESCAPE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Calls work(data). *exit is valid during the call. Returns 1 after work has returned, and 0 after
 * work has called billow_escape_leave(*exit). */
int billow_escape_run(void (*work)(void* data), void* data, void** exit);
void billow_escape_leave(void* exit);

#ifdef __cplusplus
}
#endif

#endif
