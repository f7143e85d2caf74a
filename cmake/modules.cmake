# The only list of the modules and of what each may include. A row is "module: modules that it may include". The build links by
# these rows, and tools/check_layers.py fails on any other #include.
set(BILLOW_MODULE_TABLE
  "base:"
  "cpu: base"
  "gguf: base"
  "tokenizer: base gguf"
  "prompt: base"
  "output: base prompt"
  "constraint: base"
  "quant: base"
  "quantize: base cpu gguf quant"
  "convert: base gguf tokenizer quant quantize"
  "kernels: base cpu quant"
  "tensor: base quant"
  "nn: base cpu quant kernels tensor"
  "context: base"
  "kv: base kernels tensor context"
  "image: base"
  "vision: base gguf tensor image"
  "metrics: base"
  "http: base"
  "web: base http"
  "store: base gguf"
  "keys: base store"
  "registry: base http store"
  "process: base http"
  "scheduler: base cpu context http constraint process"
  "api: base gguf tokenizer prompt output constraint context image vision metrics http store registry process scheduler convert quantize"
  "server: base cpu gguf tokenizer prompt output constraint context image vision metrics http web store keys registry process scheduler api"
  "arch: base gguf quant tensor kernels nn kv vision"
  "engine: base cpu gguf quantize tokenizer constraint kernels tensor nn kv context vision arch"
  "runner: base gguf tokenizer constraint kernels tensor kv context image vision http arch engine"
  "llama: base gguf tokenizer constraint context kernels http process engine runner"
  "cli: base cpu gguf tokenizer prompt output constraint quant convert quantize kernels tensor nn kv context image vision metrics http web store keys registry process scheduler api server arch engine runner llama"
)

# The same for headers of Billow outside src/, from the build or from the bridge: "header: modules that may include it".
set(BILLOW_OUTSIDE_TABLE
  "billow_bridge.h: prompt constraint"
  "billow_bridge_text.h: prompt constraint"
  "billow_commit.h: cli"
)

# Builds with sanitizers optimise these modules and these tests, because their speed determines the duration of the
# tests. Without optimisation, the other modules compile in a third of the time. Builds of fuzzers optimise all modules.
set(BILLOW_COMPUTING_MODULES base gguf tokenizer prompt quant convert quantize output tensor nn kv vision arch engine)
set(BILLOW_COMPUTING_TESTS test_kernels test_nn test_quant test_vision test_output test_prompt test_families)

# The modules that read binary formats. Fuzzers learn their numbers from comparisons.
set(BILLOW_BINARY_FORMATS gguf image quantize arch llama vision)

# billow_optimise(TARGET NAME LIST): optimises the target in builds with sanitizers if LIST contains NAME.
function(billow_optimise target name names)
  if(BILLOW_SANITIZE AND NOT BILLOW_FUZZ AND name IN_LIST ${names})
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# billow_module(NAME SOURCES file... [TESTS file...] [LIBS target...])
#   Adds a static library billow_NAME, linked with the modules of its row and LIBS. Its headers are under src/
#   ("NAME/header.h"). Also adds a GoogleTest binary test_NAME; each of its cases is a ctest with the label "unit".
function(billow_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;TESTS;LIBS" ${ARGN})
  set(deps "")
  foreach(row IN LISTS BILLOW_MODULE_TABLE)
    if(row MATCHES "^${name}:(.*)$")
      string(STRIP "${CMAKE_MATCH_1}" names)
      string(REPLACE " " ";" deps "${names}")
    endif()
  endforeach()
  list(TRANSFORM deps PREPEND billow_)
  if(ARG_SOURCES)
    add_library(billow_${name} STATIC ${ARG_SOURCES})
    target_include_directories(billow_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(billow_${name} PUBLIC ${deps} ${ARG_LIBS} PRIVATE billow_warnings)
    billow_optimise(billow_${name} ${name} BILLOW_COMPUTING_MODULES)
    if(BILLOW_FUZZ AND name IN_LIST BILLOW_BINARY_FORMATS)
      target_compile_options(billow_${name} PRIVATE -fsanitize-coverage=trace-cmp)
    endif()
  else()
    add_library(billow_${name} INTERFACE)
    target_include_directories(billow_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(billow_${name} INTERFACE ${deps} ${ARG_LIBS})
  endif()
  if(CMAKE_VERIFY_INTERFACE_HEADER_SETS)  # all_verify_interface_header_sets compiles each header alone
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS *.h)
    set(parts ${headers})
    list(FILTER parts INCLUDE REGEX "\\.inl\\.h$")
    list(FILTER headers EXCLUDE REGEX "\\.inl\\.h$")
    billow_parts_alone(${name} ${parts})
    set(scope PUBLIC)
    if(NOT ARG_SOURCES)
      set(scope INTERFACE)
    endif()
    target_sources(billow_${name} ${scope}
      FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR}/src FILES ${headers})
  endif()
  if(BILLOW_TESTS AND ARG_TESTS)
    billow_test(test_${name} SOURCES ${ARG_TESTS} LIBS billow_${name})
  endif()
endfunction()

# billow_parts_alone(NAME part.inl.h...)
#   Adds an object for each part of other files. The part compiles alone, with every instruction set and without
#   earlier includes. Nothing calls its functions, so unused functions are no error. `ninja parts_alone` builds all.
function(billow_parts_alone name)
  if(NOT TARGET parts_alone)
    add_custom_target(parts_alone)
  endif()
  if(NOT ARGN)
    return()
  endif()
  set(sources "")
  foreach(part IN LISTS ARGN)
    cmake_path(RELATIVE_PATH part BASE_DIRECTORY ${CMAKE_SOURCE_DIR}/src OUTPUT_VARIABLE included)
    cmake_path(GET part FILENAME file)
    file(CONFIGURE OUTPUT parts_alone/${file}.cpp CONTENT "#include \"${included}\"\n")
    list(APPEND sources ${CMAKE_CURRENT_BINARY_DIR}/parts_alone/${file}.cpp)
  endforeach()
  add_library(billow_${name}_parts_alone OBJECT EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(billow_${name}_parts_alone PRIVATE billow_${name})
  target_compile_options(billow_${name}_parts_alone PRIVATE -march=sapphirerapids -fno-exceptions -Wall -Wextra -Werror
    -Wno-unused-function -Wno-unneeded-internal-declaration)
  add_dependencies(parts_alone billow_${name}_parts_alone)
endfunction()

# Test binaries whose tests start threads. Their label ends in "-threads", and `ninja threaded_tests` builds them.
set(BILLOW_THREADED_TESTS test_api test_cpu test_engine test_http test_keys test_kv test_metrics test_llama test_nn test_process test_registry test_runner test_scheduler
  test_server test_store)
add_custom_target(threaded_tests)

# billow_test(NAME SOURCES file... LIBS target... [LABEL label] [CASES n] [PROPERTIES name value...])
#   Adds a GoogleTest binary. Each ctest runs up to n cases of one of its suites (25), and has these properties.
function(billow_test name)
  cmake_parse_arguments(ARG "" "LABEL;CASES" "SOURCES;LIBS;PROPERTIES" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_CASES)
    set(ARG_CASES 25)
  endif()
  if(name IN_LIST BILLOW_THREADED_TESTS)
    add_dependencies(threaded_tests ${name})
    string(APPEND ARG_LABEL "-threads")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  billow_optimise(${name} ${name} BILLOW_COMPUTING_TESTS)
  if(NOT TARGET billow_test_source_dir)
    add_library(billow_test_source_dir STATIC ${CMAKE_SOURCE_DIR}/src/base/test_source_dir.cpp)
    target_include_directories(billow_test_source_dir PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(billow_test_source_dir PRIVATE billow_warnings)
    target_compile_definitions(billow_test_source_dir PRIVATE BILLOW_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} billow_test_source_dir billow_warnings GTest::gtest GTest::gtest_main)
  set(tests ${CMAKE_CURRENT_BINARY_DIR}/${name}_tests.cmake)
  add_custom_command(TARGET ${name} POST_BUILD BYPRODUCTS ${tests}
    COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/cmake/discover_tests.py $<TARGET_FILE:${name}> ${tests} ${ARG_CASES}
            LABELS ${ARG_LABEL} ${ARG_PROPERTIES}
    VERBATIM)
  # A program that is not built is a test that fails.
  file(CONFIGURE OUTPUT ${name}_include.cmake CONTENT
    "if(EXISTS \"${tests}\")\n  include(\"${tests}\")\nelse()\n  add_test(${name}.not_built ${name}.not_built)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}_include.cmake)
endfunction()
