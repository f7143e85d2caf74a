// The file of API keys: TOML with a [[key]] table for each key. It has digests, never the keys
// themselves. Pure functions, except new_key() and those that use the disk. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/digest.h"

namespace billow::keys {

// What a key may do. Each route of the server needs one role or none.
enum class Role : uint8_t {
  kUse,      // generate, embed, rerank, tokenise, list and show models
  kManage,   // change the store: pull, push, create, copy, delete
  kObserve,  // metrics, traces, events, loaded models
};
inline constexpr size_t kNumRoles = 3;
// Returns "use", "manage" or "observe".
std::string_view role_name(Role role) noexcept;

class Roles {
 public:
  bool has(Role role) const noexcept { return has_[static_cast<size_t>(role)]; }
  void add(Role role) noexcept { has_[static_cast<size_t>(role)] = true; }
  bool operator==(const Roles&) const = default;

 private:
  std::array<bool, kNumRoles> has_{};
};

struct Limits {
  size_t max_requests = 0;         // requests that run or wait at the same time; 0: no limit
  uint64_t tokens_per_minute = 0;  // evaluated and generated tokens; 0: no limit
  uint32_t weight = 1;             // share of the server while other keys have work, too
  bool operator==(const Limits&) const = default;
};

struct KeyRecord {
  std::string name;      // of the tenant: letters, digits and -_.@, at most 64
  store::Digest digest;  // SHA-256 of the key
  Roles roles{};
  Limits limits{};
};

inline constexpr uint64_t kMaxFileBytes = 4 << 20;
inline constexpr size_t kMaxKeys = 10'000;
inline constexpr uint32_t kMaxWeight = 1000;

// Parses the text of a file. `path` is only for messages. Throws Error (kInvalidInput) with
// "PATH:LINE: what is wrong" for the first fault.
std::vector<KeyRecord> parse_keys(std::string_view text, const std::string& path);

// Parses a list of roles like "use,observe". Throws Error (kInvalidInput).
Roles parse_roles(std::string_view list);
std::string roles_text(const Roles& roles);  // "use,observe"

// Return the text of the file with `key` at its end, or without the key `name`. Other lines stay as
// they are. Both throw Error (kInvalidInput) if the text has faults. add_key() also throws if the
// name is taken or malformed. revoke_key() throws kNotFound for an unknown name.
std::string add_key(std::string_view text, const KeyRecord& key, const std::string& path);
std::string revoke_key(std::string_view text, std::string_view name, const std::string& path);

// Returns a new key: "billow-" and 43 random characters (258 bits). Throws Error if the system
// cannot provide random numbers.
std::string new_key();

// Reads the file. Throws Error if it cannot be read.
std::string read_keys_file(const std::string& path);

// Changes a file of keys. Two programs that change the file take turns. One thread.
class KeysFileChange {
 public:
  // Waits for other changes. Creates the file if it does not exist, readable by its owner only.
  // Throws Error.
  explicit KeysFileChange(const std::string& path);
  ~KeysFileChange();
  KeysFileChange(const KeysFileChange&) = delete;
  KeysFileChange& operator=(const KeysFileChange&) = delete;

  // Replaces the file by rename; follows links. Keeps the permissions, but removes those of other
  // users. Keeps the owner and the group if the system permits it. Throws Error.
  void write(std::string_view text);

 private:
  std::string path_;  // without links
  int fd_ = -1;       // locked
};

}  // namespace billow::keys
