# The warnings that every target of ours is clean of, with GCC and Clang alike. Where one that only GCC knows is turned
# off, Clang does not mind.
add_library(billow_warnings INTERFACE)
target_compile_options(billow_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow -Werror
  $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-warning-option>)
