#include "cli/client/line_editor.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

namespace billow::cli {
namespace {

constexpr std::string_view kLineBreak = "\u2028";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

TypedLine PlainLineEditor::read(bool /*continues*/) {
  TypedLine line;
  if (!std::getline(in_, line.text)) return {.kind = TypedLine::Kind::kEnd};
  if (line.text.ends_with('\r')) line.text.pop_back();
  return line;
}

LineHistory::LineHistory(std::string path) : path_(std::move(path)) {
  std::ifstream file(path_);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) entries_.push_back(replaced(line, kLineBreak, "\n"));
    if (entries_.size() > kMaxEntries) entries_.erase(entries_.begin());
  }
}

void LineHistory::add(const std::string& entry) {
  if (entry.find_first_not_of(" \t\n") == std::string::npos) return;
  if (!entries_.empty() && entries_.back() == entry) return;
  entries_.push_back(entry);
  if (entries_.size() > kMaxEntries) entries_.erase(entries_.begin());
  if (path_.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), failed);
  const std::string fresh = path_ + ".new";
  const mode_t before = ::umask(0077);  // only the user may read the file
  std::ofstream file(fresh, std::ios::trunc);
  ::umask(before);
  for (const std::string& kept : entries_) file << replaced(kept, "\n", kLineBreak) << '\n';
  file.close();
  if (file) std::filesystem::rename(fresh, path_, failed);
}

}  // namespace billow::cli
