/* The way out of work that cannot go on and cannot be unwound: session.rs takes it where an
 * allocation is refused. Frames between the two calls are left as they are, and nothing in them
 * runs again. Any thread; both calls on the same one. */
#ifndef BILLOW_ESCAPE_H
#define BILLOW_ESCAPE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Calls work(data). *exit is valid meanwhile. Returns 1 when work has returned, 0 when it has left
 * by billow_escape_leave(*exit). */
int billow_escape_run(void (*work)(void* data), void* data, void** exit);
void billow_escape_leave(void* exit);

#ifdef __cplusplus
}
#endif

#endif
