#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace billow {

void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "billow: bug: CHECK(%s) failed at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace billow
