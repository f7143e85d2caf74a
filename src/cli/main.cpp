// The program. Reports what a command throws as one line.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <new>
#include <string_view>

#include "cli/console.h"
#include "cli/program.h"

namespace {

// Opens the standard descriptors that are closed. Otherwise, the program's next file would get such
// a number, and messages would be written into the file.
void open_standard_files() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number)
    if (::fcntl(number, F_GETFD) < 0) static_cast<void>(::open("/dev/null", O_RDWR));
}

// Returns whether the command runs until a signal ends it.
bool is_server(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  return command == "serve" || command == "start" || command == "runner";
}

void set_signals(bool serves) {
  // A write beyond the limit of file sizes fails with an error, as a write to a full disk does.
  std::signal(SIGXFSZ, SIG_IGN);
  // If the parent ignores this signal, the program inherits that, and would not learn how its own
  // children end.
  std::signal(SIGCHLD, SIG_DFL);
  // A server outlives the reader of its log. Other commands end with the reader of their output.
  // Children of this process get the default: spawn() resets all signals.
  if (serves) std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_files();
  set_signals(is_server(argc, argv));
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
