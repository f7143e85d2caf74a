// BILLOW_CHECK catches bugs in Billow. If the condition is false, it prints the condition and
// aborts, in every build.
#pragma once

namespace billow {

[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace billow

#define BILLOW_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::billow::check_failed(#condition, __FILE__, __LINE__))
