// The program. Declares the commands and reports their exceptions as one line.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "cli/command.h"
#include "cli/version.h"

namespace {

int report(const char* message) {
  const bool colour = ::isatty(STDERR_FILENO) != 0;
  std::fprintf(stderr, "%s %s\n",
               colour ? "\033[1;31mbillow: error:\033[0m" : "billow: error:", message);
  return 1;
}

int run(int argc, char** argv) {
  CLI::App app("Billow serves language models from GGUF files.", "billow");
  app.require_subcommand(1);
  app.set_version_flag("--version", billow::cli::version_text,
                       "Print version, compiler and kernels");
  billow::cli::add_serve(app);
  billow::cli::add_run(app);
  billow::cli::add_create(app);
  billow::cli::add_pull(app);
  billow::cli::add_push(app);
  billow::cli::add_show(app);
  billow::cli::add_list(app);
  billow::cli::add_ps(app);
  billow::cli::add_cp(app);
  billow::cli::add_rm(app);
  billow::cli::add_stop(app);
  billow::cli::add_embed(app);
  billow::cli::add_fingerprint(app);
  billow::cli::add_generate(app);
  billow::cli::add_inspect(app);
  billow::cli::add_tokenize(app);
  billow::cli::add_detokenize(app);
  billow::cli::add_render(app);
  billow::cli::add_perplexity(app);
  billow::cli::add_convert(app);
  billow::cli::add_quantize(app);
  billow::cli::add_imatrix(app);
  billow::cli::add_logits(app);
  billow::cli::add_bench(app);
  billow::cli::add_plan(app);
  billow::cli::add_runner(app);
  billow::cli::add_with_parent(app);
  billow::cli::add_trace(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& ended) {
    return ended.get_exit_code();  // e.g. an interrupted command that has printed its results
  } catch (const CLI::ParseError& error) {
    // Help and version are "errors" with status 0 to the library.
    return error.get_exit_code() == 0 ? app.exit(error) : (app.exit(error), 2);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // If a write exceeds the file size limit, it fails with an error instead of a signal, as on a
  // full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return report("out of memory; close other programs or use a smaller model");
  } catch (const std::exception& error) {
    return report(error.what());
  }
}
