// The program. Reports what a command throws as one line.
#include <csignal>
#include <exception>
#include <new>

#include "cli/console.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  // A write beyond the limit of file sizes fails with an error, as a write to a full disk does.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int status = billow::cli::run_program(argc, argv);
    if (status == 0) billow::cli::finish_output();
    return status;
  } catch (const std::bad_alloc&) {
    return billow::cli::report_error("out of memory; close other programs or use a smaller model");
  } catch (const std::exception& error) {
    return billow::cli::report_error(error.what());
  }
}
