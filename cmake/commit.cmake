# Runs at each build. Writes the current commit to OUTPUT, and changes the file only if the commit has changed.
cmake_policy(VERSION 3.25)
execute_process(
  COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once\n#define BILLOW_COMMIT \"@commit@\"\n" @ONLY)
