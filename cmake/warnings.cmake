# The warnings that every target of ours is clean of, with GCC and Clang alike.
add_library(billow_warnings INTERFACE)
target_compile_options(billow_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow -Werror)
