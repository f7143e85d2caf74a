#include "cli/client/line_editor.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

namespace billow::cli {

TypedLine PlainLineEditor::read(bool /*continues*/) {
  TypedLine line;
  if (!std::getline(in_, line.text)) return {.kind = TypedLine::Kind::kEnd};
  if (line.text.ends_with('\r')) line.text.pop_back();
  return line;
}

LineHistory::LineHistory(std::string path) : path_(std::move(path)) {
  std::ifstream file(path_);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines_.push_back(line);
    if (lines_.size() > kMostLines) lines_.erase(lines_.begin());
  }
}

void LineHistory::add(const std::string& line) {
  if (line.find_first_not_of(" \t") == std::string::npos) return;
  if (!lines_.empty() && lines_.back() == line) return;
  lines_.push_back(line);
  if (lines_.size() > kMostLines) lines_.erase(lines_.begin());
  if (path_.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), failed);
  const std::string fresh = path_ + ".new";
  const mode_t before = ::umask(0077);  // what people type is theirs
  std::ofstream file(fresh, std::ios::trunc);
  ::umask(before);
  for (const std::string& kept : lines_) file << kept << '\n';
  file.close();
  if (file) std::filesystem::rename(fresh, path_, failed);
}

}  // namespace billow::cli
