#include "gguf/split.h"

#include <cinttypes>
#include <cstdio>

#include "gguf/cursor.h"

namespace billow::gguf {
namespace {

constexpr uint64_t kMaxFiles = 65535;  // split.count is a u16

std::string split_suffix(uint64_t number, uint64_t count) {
  char suffix[64];
  std::snprintf(suffix, sizeof suffix, "-%05" PRIu64 "-of-%05" PRIu64 ".gguf", number + 1, count);
  return suffix;
}

std::optional<uint64_t> read_key(const Shard& shard, const std::string& path, const char* key) {
  const Value* value = shard.find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<uint64_t> number = as_uint(*value);
  if (!number) {
    throw file_error(path, "metadata key " + quoted(key) + " must be an unsigned integer");
  }
  return number;
}

}  // namespace

std::string split_path(const std::string& prefix, uint64_t number, uint64_t count) {
  return prefix + split_suffix(number, count);
}

SplitKeys read_split_keys(const Shard& shard, const std::string& path) {
  const SplitKeys keys{.number = read_key(shard, path, "split.no").value_or(0),
                       .count = read_key(shard, path, "split.count").value_or(1),
                       .n_tensors = read_key(shard, path, "split.tensors.count")};
  // Some tools write a count of 0 into files that are not split.
  if (keys.count == 0) return {};
  if (keys.count > kMaxFiles || keys.number >= keys.count) {
    throw file_error(path, "split.no " + std::to_string(keys.number) + " of split.count " +
                               std::to_string(keys.count) + " is invalid");
  }
  return keys;
}

std::vector<std::string> sibling_paths(const SplitKeys& keys, const std::string& path) {
  if (keys.count == 1) return {};
  const std::string suffix = split_suffix(keys.number, keys.count);
  const bool named = path.ends_with(suffix);
  const std::string prefix = path.substr(0, path.size() - (named ? suffix.size() : 0));
  const std::string part = "part " + std::to_string(keys.number + 1) + " of a model of " +
                           std::to_string(keys.count) + " files";
  if (keys.number != 0) {
    const std::string first = split_path(named ? prefix : "NAME", 0, keys.count);
    throw file_error(path, part + "; open the first part: " + first);
  }
  if (!named) {
    throw file_error(path, part + ", but its name does not say so; name all parts like NAME" +
                               suffix + " for this one");
  }
  std::vector<std::string> paths;
  for (uint64_t i = 1; i < keys.count; ++i) paths.push_back(split_path(prefix, i, keys.count));
  return paths;
}

}  // namespace billow::gguf
