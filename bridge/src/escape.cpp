#include "escape.h"

#include <csetjmp>

extern "C" int billow_escape_run(void (*work)(void* data), void* data, void** exit) {
  std::jmp_buf here;
  if (setjmp(here) != 0) return 0;
  *exit = &here;
  work(data);
  return 1;
}

extern "C" void billow_escape_leave(void* exit) {
  std::longjmp(*static_cast<std::jmp_buf*>(exit), 1);
}
