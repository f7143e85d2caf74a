# BILLOW_SANITIZE applies to the whole build, so that all objects are instrumented.
if(BILLOW_SANITIZE)
  add_compile_options(-fsanitize=${BILLOW_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${BILLOW_SANITIZE})
  # ThreadSanitizer does not support fences, and GCC warns about each fence. Boost.Asio works without fences, because
  # its queues have a mutex.
  if(BILLOW_SANITIZE MATCHES "thread")
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()

# libFuzzer uses the coverage of the libraries, not only of the target. The targets link with -fsanitize=fuzzer.
if(BILLOW_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "BILLOW_FUZZ needs Clang: use the preset \"fuzz\"")
  endif()
  # Without comparisons of integers: they can double the time of a run, and texts have none that are hard to guess.
  add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp)
endif()
