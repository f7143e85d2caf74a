#include "llama/find.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace billow::llama {
namespace {

bool is_program(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::optional<std::string> find_server(const std::string& wanted) {
  if (wanted.find('/') != std::string::npos) {
    if (is_program(wanted)) return wanted;
    throw Error(ErrorCode::kNotFound, "--llama-server " + wanted + ": there is no such program");
  }
  const std::string name = wanted.empty() ? "llama-server" : wanted;
  const char* variable = std::getenv("PATH");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    std::string path(rest.substr(0, end));
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
    if (path.empty()) continue;
    path += '/';
    path += name;
    if (is_program(path)) return path;
  }
  if (wanted.empty()) return std::nullopt;
  throw Error(ErrorCode::kNotFound,
              "--llama-server " + wanted + ": there is no such program on PATH");
}

}  // namespace billow::llama
