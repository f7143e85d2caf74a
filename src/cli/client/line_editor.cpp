#include "cli/client/line_editor.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "cli/console.h"

namespace billow::cli {
namespace {

constexpr std::string_view kLineBreak = "\u2028";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

void append(std::vector<std::string>& entries, const std::string& entry) {
  entries.push_back(entry);
  if (entries.size() > LineHistory::kMaxEntries) entries.erase(entries.begin());
}

std::vector<std::string> read_entries(const std::string& path) {
  std::vector<std::string> entries;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) append(entries, replaced(line, kLineBreak, "\n"));
  return entries;
}

}  // namespace

TypedLine PlainLineEditor::read(bool continues) {
  if (shows_prompts_) print_now(line_prompt(continues));
  TypedLine line;
  if (!std::getline(in_, line.text)) return {.kind = TypedLine::Kind::kEnd};
  if (line.text.ends_with('\r')) line.text.pop_back();
  return line;
}

LineHistory::LineHistory(std::string path)
    : path_(std::move(path)), entries_(read_entries(path_)) {}

void LineHistory::add(const std::string& entry) {
  if (entry.find_first_not_of(" \t\n") == std::string::npos) return;
  if (!entries_.empty() && entries_.back() == entry) return;
  append(entries_, entry);
  if (path_.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), failed);
  // Another session may have added entries to the file.
  std::vector<std::string> stored = read_entries(path_);
  if (stored.empty()) {
    stored = entries_;  // the file is new, removed or unreadable
  } else {
    append(stored, entry);
  }
  std::string fresh = path_ + ".XXXXXX";
  const int created = ::mkstemp(fresh.data());  // only the user may read the file
  if (created < 0) return;
  ::close(created);
  std::ofstream file(fresh);
  for (const std::string& kept : stored) file << replaced(kept, "\n", kLineBreak) << '\n';
  file.close();
  if (file) std::filesystem::rename(fresh, path_, failed);
  if (!file || failed) std::filesystem::remove(fresh, failed);
}

}  // namespace billow::cli
