#include "api/slot_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/byte_size.h"
#include "base/cache_folder.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "gguf/atomic_file.h"
#include "http/status.h"
#include "store/folder.h"

namespace billow::api {
namespace {

namespace fs = std::filesystem;
using http::StatusError;

// A file is one line of JSON, {"billow_slot":1,"model":"...","n_tokens":N,"sum":"..."}, and the
// token ids of 32 bits each, little-endian.
constexpr int kVersion = 1;
constexpr uint64_t kMaxFileBytes = uint64_t{64} << 20;
constexpr std::string_view kUnfinished = ".partial-";  // of gguf::AtomicFile
// Younger unfinished files stay, because a file system without locks shows no writer.
constexpr std::chrono::minutes kMinUnfinishedAge{10};

std::string bytes_of(const std::vector<int32_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t)};
}

std::string sum_of(const std::string& model, const std::string& bytes) {
  return cache_name(model + "\n" + bytes);
}

Json head_of(const std::string& model, const std::string& bytes) {
  return {{"billow_slot", kVersion},
          {"model", model},
          {"n_tokens", bytes.size() / sizeof(int32_t)},
          {"sum", sum_of(model, bytes)}};
}

// Returns the bytes of all files except `path`. Removes unfinished files of ended servers.
uint64_t bytes_of_others(const std::string& folder, const std::string& path) {
  const auto newest = std::chrono::system_clock::now() - kMinUnfinishedAge;
  uint64_t sum = 0;
  for (const std::string& name : store::children(folder)) {
    std::string file = folder;
    file.append("/").append(name);
    const auto status = store::entry_status(file);
    if (!status || file == path) continue;
    if (name.find(kUnfinished) != std::string::npos && status->modified <= newest) {
      const store::UnwrittenFile is_unwritten(file);
      if (is_unwritten && ::unlink(file.c_str()) == 0) continue;
    }
    sum += status->size_bytes;
  }
  return sum;
}

// Returns nullopt if the file is damaged.
std::optional<std::pair<std::string, std::vector<int32_t>>> parsed(const std::string& content) {
  const size_t end = content.find('\n');
  if (end == std::string::npos) return std::nullopt;
  const Json head = Json::parse(content.substr(0, end), nullptr, false);
  const auto model = head.is_object() ? head.find("model") : head.end();
  if (model == head.end() || !model->is_string()) return std::nullopt;
  const std::string bytes = content.substr(end + 1);
  if (bytes.size() % sizeof(int32_t) != 0 || head != head_of(model->get<std::string>(), bytes))
    return std::nullopt;
  std::vector<int32_t> tokens(bytes.size() / sizeof(int32_t));
  if (!tokens.empty()) std::memcpy(tokens.data(), bytes.data(), bytes.size());
  return std::pair(model->get<std::string>(), std::move(tokens));
}

}  // namespace

std::string SlotFiles::path_of(const std::string& name) const {
  if (options_.folder.empty() || options_.max_bytes == 0)
    throw StatusError(501,
                      "this server does not save slots: start it with --sessions-limit SIZE, and "
                      "without --read-only");
  const bool has_control = std::ranges::any_of(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  const char* why = nullptr;
  if (name.empty())
    why = "is required";
  else if (name.find('/') != std::string::npos || name.find('\\') != std::string::npos)
    why = "must be a plain name, without a path";
  else if (name.front() == '.')
    why = "must not begin with a dot";
  else if (name.size() > kMaxName)
    why = "must not be longer than 200 bytes";
  else if (has_control || !utf8::is_valid(name))
    why = "must be text without control characters";
  else if (name.find(kUnfinished) != std::string::npos)
    why = "must not contain \".partial-\"";
  if (why != nullptr) throw StatusError(400, std::string("field \"filename\" ") + why);
  return options_.folder + "/" + name;
}

uint64_t SlotFiles::save(const std::string& name, const std::string& model,
                         const std::vector<int32_t>& tokens) {
  const std::string path = path_of(name);
  const std::string bytes = bytes_of(tokens);
  const std::string content = head_of(model, bytes).dump() + "\n" + bytes;
  const std::scoped_lock lock(mutex_);
  std::error_code error;
  fs::create_directories(options_.folder, error);
  if (error) throw system_error("cannot make folder", options_.folder, error.value());
  // Other users must not read conversations.
  ::chmod(fs::path(options_.folder).parent_path().c_str(), 0700);
  ::chmod(options_.folder.c_str(), 0700);
  const uint64_t limit = std::min(options_.max_bytes, kMaxFileBytes);
  if (content.size() > limit ||
      bytes_of_others(options_.folder, path) > options_.max_bytes - content.size())
    throw StatusError(400, "saved slots may take " + format_byte_size(options_.max_bytes) +
                               " of --sessions-limit: remove files in " + options_.folder);
  gguf::AtomicFile file(path);
  file.write(std::as_bytes(std::span(content)));
  file.commit();
  ::chmod(path.c_str(), 0600);
  return content.size();
}

SlotFiles::Saved SlotFiles::load(const std::string& name, const std::string& model) const {
  const std::string path = path_of(name);
  const auto file = store::read_file(path, kMaxFileBytes);
  if (!file) throw StatusError(400, "there is no saved slot \"" + name + "\"");
  auto found = parsed(file->bytes);
  if (!found) throw StatusError(400, "the saved slot \"" + name + "\" is damaged");
  if (found->first != model)
    throw StatusError(400, "the saved slot \"" + name + "\" belongs to another model");
  return {.tokens = std::move(found->second), .n_bytes = file->bytes.size()};
}

}  // namespace billow::api
