#include "cli/progress_lines.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.h"
#include "base/json.h"
#include "cli/program.h"

namespace billow::cli {
namespace {

void write_line(const Json& line) {
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

void ProgressLines::show(uint64_t n_done, uint64_t n_total) {
  const uint64_t percent = n_total == 0 ? 100 : n_done * 100 / n_total;
  if (percent == shown_) return;
  shown_ = percent;
  write_line({{"completed", n_done}, {"total", n_total}});
}

void ProgressLines::note(const std::string& text) { write_line({{"note", text}}); }

void ProgressLines::with_errors(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    write_line({{"error", error.what()}, {"code", error_code_name(error.code())}});
    throw CLI::RuntimeError(kFailed);
  } catch (const CLI::RuntimeError&) {
    throw;
  } catch (const CLI::ParseError& error) {  // wrong usage
    write_line({{"error", error.what()}, {"code", error_code_name(ErrorCode::kInvalidInput)}});
    throw CLI::RuntimeError(kWrongUsage);
  }
}

}  // namespace billow::cli
