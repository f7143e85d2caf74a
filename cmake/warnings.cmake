# All targets of Billow compile without these warnings, with GCC and Clang. Clang ignores disabled warnings that only
# GCC has.
add_library(billow_warnings INTERFACE)
target_compile_options(billow_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow -Werror
  $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-warning-option>)
