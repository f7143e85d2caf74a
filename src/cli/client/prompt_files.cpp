#include "cli/client/prompt_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "cli/client/format.h"
#include "http/message.h"
#include "store/folder.h"

namespace billow::cli {
namespace {

constexpr uint64_t kMaxBytes = 100 << 20;
constexpr std::string_view kEndings[] = {".jpg", ".jpeg", ".png", ".webp", ".wav"};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

bool begins_path(std::string_view text) {
  if (text.size() > 2 && is_letter(text[0]) && text[1] == ':') text.remove_prefix(2);
  return text.starts_with('/') || text.starts_with('\\') || text.starts_with("./") ||
         text.starts_with("../");
}

// Returns the length of `text` up to the end of the first file ending, or 0.
size_t length_to_ending(std::string_view text) {
  for (size_t at = text.find('.'); at != std::string_view::npos; at = text.find('.', at + 1)) {
    for (const std::string_view ending : kEndings) {
      const size_t end = at + ending.size();
      if (end <= text.size() && equal_ignoring_case(text.substr(at, ending.size()), ending) &&
          (end == text.size() || !is_word(text[end]))) {
        return end;
      }
    }
  }
  return 0;
}

// Returns an unquoted path. Blanks in the path have a backslash before them.
std::string_view unquoted(std::string_view text) {
  text = text.substr(0, PATH_MAX);  // no file has a longer path
  size_t n = 0;
  while (n < text.size() && !is_space(text[n]) && text[n] != '"') {
    n += text[n] == '\\' && n + 1 < text.size() && text[n + 1] == ' ' ? 2 : 1;
  }
  const size_t length = length_to_ending(text.substr(0, n));
  return text.substr(0, length < PATH_MAX ? length : 0);
}

std::string without_escapes(std::string_view text) {
  constexpr std::string_view kEscaped = " ()[]{}$&;'\"\\*?~`!#|<>";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && kEscaped.find(text[i + 1]) != kEscaped.npos) ++i;
    out += text[i];
  }
  return out;
}

std::optional<NamedFile> file_at(std::string_view text, size_t at) {
  const char c = text[at];
  if (c == '\'' || c == '"') {
    const size_t close = text.find(c, at + 1);
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view inside = text.substr(at + 1, close - at - 1);
    if (!begins_path(inside) || length_to_ending(inside) != inside.size()) return std::nullopt;
    return NamedFile{std::string(text.substr(at, close + 1 - at)), std::string(inside)};
  }
  if (at > 0 && (is_word(text[at - 1]) || text[at - 1] == '.' || text[at - 1] == '/')) {
    return std::nullopt;
  }
  if (!begins_path(text.substr(at))) return std::nullopt;
  const std::string_view written = unquoted(text.substr(at));
  if (written.empty()) return std::nullopt;
  return NamedFile{std::string(written), without_escapes(written)};
}

// Returns the kind of a file from its first bytes; empty if it is neither an image nor audio.
std::string_view kind_of(std::string_view bytes) {
  if (bytes.starts_with("\xff\xd8\xff")) return "image";
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return "image";
  if (bytes.size() < 12 || !bytes.starts_with("RIFF")) return "";
  if (bytes.substr(8, 4) == "WEBP") return "image";
  return bytes.substr(8, 4) == "WAVE" ? "audio" : "";
}

}  // namespace

std::vector<NamedFile> files_named_in(std::string_view text) {
  std::vector<NamedFile> files;
  for (size_t at = 0; at < text.size();) {
    if (auto file = file_at(text, at)) {
      at += file->written.size();
      files.push_back(std::move(*file));
    } else {
      ++at;
    }
  }
  return files;
}

PromptFiles take_files(std::string_view text) {
  PromptFiles taken{.text = std::string(text), .contents = {}, .notes = {}};
  for (const NamedFile& file : files_named_in(text)) {
    const auto content = store::read_file(file.path, kMaxBytes);
    if (!content) continue;
    const std::string_view kind = kind_of(content->bytes);
    if (kind.empty()) {
      throw Error(
          ErrorCode::kInvalidInput,
          file.path + ": the file is not a JPEG, PNG, WebP or WAV file, although its name says so");
    }
    taken.contents.push_back(base64(content->bytes));
    taken.notes += fmt::format("Added {} '{}'\n", kind, file.path);
    const size_t at = taken.text.find(file.written);
    if (at != std::string::npos) taken.text.erase(at, file.written.size());
  }
  if (!taken.contents.empty()) taken.text = std::string(trimmed(taken.text));
  return taken;
}

}  // namespace billow::cli
