#include "keys/keys_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/suggestion.h"
#include "base/text.h"
#include "store/folder.h"

namespace billow::keys {
namespace {

constexpr std::string_view kRoleNames[kNumRoles] = {"use", "manage", "observe"};
constexpr size_t kMaxNameBytes = 64;
constexpr size_t kDigestDigits = 64;

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kInvalidInput, where + ": " + what);
}

std::optional<Role> role_of(std::string_view name) {
  const auto* found = std::ranges::find(kRoleNames, name);
  if (found == std::end(kRoleNames)) return std::nullopt;
  return static_cast<Role>(found - std::begin(kRoleNames));
}

std::string unknown_role(std::string_view name) {
  return fmt::format("unknown role '{}'; the roles are use, manage and observe", name);
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '@';
  });
}

std::string wrong_name(std::string_view name) {
  return fmt::format("the name '{}' must have 1 to 64 letters, digits or -_.@", name);
}

std::optional<store::Digest> digest_of_hex(std::string_view hex) {
  if (hex.size() != kDigestDigits) return std::nullopt;
  return store::Digest::parse("sha256:" + std::string(hex));
}

std::string where_of(const toml::node& node, const std::string& path) {
  return fmt::format("{}:{}", path, std::max<unsigned>(node.source().begin.line, 1));
}

std::string text_of(const toml::table& table, const char* key, const std::string& path) {
  const toml::node* node = table.get(key);
  if (node == nullptr) refuse(where_of(table, path), fmt::format("a [[key]] needs '{}'", key));
  if (const auto* value = node->as_string()) return value->get();
  refuse(where_of(*node, path), fmt::format("'{}' must be a text", key));
}

uint64_t number_of(const toml::table& table, const char* key, int64_t max, uint64_t fallback,
                   const std::string& path) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return fallback;
  const auto* value = node->as_integer();
  if (value == nullptr || value->get() < 1 || value->get() > max)
    refuse(where_of(*node, path),
           fmt::format("'{}' must be a whole number from 1 to {}", key, max));
  return static_cast<uint64_t>(value->get());
}

Roles roles_of(const toml::table& table, const std::string& path) {
  Roles roles;
  const toml::node* node = table.get("roles");
  if (node == nullptr) {
    roles.add(Role::kUse);
    return roles;
  }
  const toml::array* list = node->as_array();
  if (list == nullptr || list->empty())
    refuse(where_of(*node, path), "'roles' must be a list like [\"use\", \"observe\"]");
  for (const toml::node& item : *list) {
    const auto* name = item.as_string();
    if (name == nullptr) refuse(where_of(item, path), "'roles' must be a list of texts");
    const std::optional<Role> role = role_of(name->get());
    if (!role) refuse(where_of(item, path), unknown_role(name->get()));
    roles.add(*role);
  }
  return roles;
}

KeyRecord key_of(const toml::table& table, const std::string& path) {
  static const std::vector<std::string> kKnown = {
      "name", "sha256", "roles", "max_requests", "tokens_per_minute", "weight"};
  for (const auto& [key, node] : table)
    if (std::ranges::find(kKnown, key.str()) == kKnown.end())
      refuse(where_of(node, path), fmt::format("unknown key '{}'{}", key.str(),
                                               did_you_mean(std::string(key.str()), kKnown)));
  KeyRecord record{.name = text_of(table, "name", path), .digest = {}};
  if (!is_name(record.name)) refuse(where_of(*table.get("name"), path), wrong_name(record.name));
  const std::optional<store::Digest> digest = digest_of_hex(text_of(table, "sha256", path));
  if (!digest)
    refuse(where_of(*table.get("sha256"), path),
           "'sha256' must be the SHA-256 of a key: 64 hexadecimal digits");
  record.digest = *digest;
  record.roles = roles_of(table, path);
  record.limits.max_requests = number_of(table, "max_requests", 1'000'000, 0, path);
  record.limits.tokens_per_minute =
      number_of(table, "tokens_per_minute", 1'000'000'000'000, 0, path);
  record.limits.weight = static_cast<uint32_t>(number_of(table, "weight", kMaxWeight, 1, path));
  return record;
}

toml::table parse_toml(std::string_view text, const std::string& path) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    refuse(fmt::format("{}:{}", path, error.source().begin.line), std::string(error.description()));
  }
}

// Returns the [[key]] tables of a file. Throws for anything else in it.
std::vector<const toml::table*> tables_of(const toml::table& file, const std::string& path) {
  std::vector<const toml::table*> found;
  for (const auto& [key, node] : file) {
    if (key.str() != "key")
      refuse(where_of(node, path),
             fmt::format("unknown key '{}'; the file has a [[key]] for each API key", key.str()));
    const toml::array* list = node.as_array();
    if (list == nullptr) refuse(where_of(node, path), "write [[key]] for each API key");
    for (const toml::node& item : *list) {
      const toml::table* table = item.as_table();
      if (table == nullptr) refuse(where_of(item, path), "write [[key]] for each API key");
      found.push_back(table);
    }
  }
  if (found.size() > kMaxKeys)
    refuse(path, fmt::format("{} keys; the maximum is {}", found.size(), kMaxKeys));
  return found;
}

std::string table_text(const KeyRecord& key) {
  std::string roles;
  for (size_t i = 0; i < kNumRoles; ++i)
    if (key.roles.has(static_cast<Role>(i)))
      roles += fmt::format("{}\"{}\"", roles.empty() ? "" : ", ", kRoleNames[i]);
  std::string text = fmt::format("[[key]]\nname = \"{}\"\nsha256 = \"{}\"\nroles = [{}]\n",
                                 key.name, key.digest.hex(), roles);
  if (key.limits.max_requests > 0)
    text += fmt::format("max_requests = {}\n", key.limits.max_requests);
  if (key.limits.tokens_per_minute > 0)
    text += fmt::format("tokens_per_minute = {}\n", key.limits.tokens_per_minute);
  if (key.limits.weight != 1) text += fmt::format("weight = {}\n", key.limits.weight);
  return text;
}

// Closes the file. Also removes it, unless keep() was called.
class NewFile {
 public:
  explicit NewFile(std::string pattern) : path_(std::move(pattern)), fd_(::mkstemp(path_.data())) {}
  ~NewFile() {
    if (fd_ >= 0) ::close(fd_);
    if (fd_ >= 0 && !is_kept_) ::unlink(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  void keep() { is_kept_ = true; }

 private:
  std::string path_;
  int fd_;
  bool is_kept_ = false;
};

}  // namespace

std::string_view role_name(Role role) noexcept { return kRoleNames[static_cast<size_t>(role)]; }

std::vector<KeyRecord> parse_keys(std::string_view text, const std::string& path) {
  const toml::table file = parse_toml(text, path);
  std::vector<KeyRecord> keys;
  std::map<std::string, std::string> where_by_name;
  std::map<store::Digest, std::string> name_by_digest;
  for (const toml::table* table : tables_of(file, path)) {
    KeyRecord& key = keys.emplace_back(key_of(*table, path));
    const std::string where = where_of(*table, path);
    if (const auto [at, is_new] = where_by_name.emplace(key.name, where); !is_new)
      refuse(where, fmt::format("the name '{}' is also at {}", key.name, at->second));
    if (const auto [at, is_new] = name_by_digest.emplace(key.digest, key.name); !is_new)
      refuse(where, fmt::format("'{}' and '{}' have the same sha256", key.name, at->second));
  }
  return keys;
}

Roles parse_roles(std::string_view list) {
  Roles roles;
  while (true) {
    const size_t comma = list.find(',');
    const std::string_view name = trimmed(list.substr(0, comma), " ");
    const std::optional<Role> role = role_of(name);
    if (!role) throw Error(ErrorCode::kInvalidInput, unknown_role(name));
    roles.add(*role);
    if (comma == std::string_view::npos) return roles;
    list.remove_prefix(comma + 1);
  }
}

std::string roles_text(const Roles& roles) {
  std::string text;
  for (size_t i = 0; i < kNumRoles; ++i)
    if (roles.has(static_cast<Role>(i))) text.append(text.empty() ? "" : ",").append(kRoleNames[i]);
  return text;
}

std::string add_key(std::string_view text, const KeyRecord& key, const std::string& path) {
  if (!is_name(key.name)) throw Error(ErrorCode::kInvalidInput, wrong_name(key.name));
  for (const KeyRecord& other : parse_keys(text, path))
    if (other.name == key.name)
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("{} has a key '{}' already; revoke it first, or choose another name",
                              path, key.name));
  std::string made(text);
  if (!made.empty() && !made.ends_with('\n')) made += '\n';
  if (!made.empty()) made += '\n';
  made += table_text(key);
  parse_keys(made, path);
  return made;
}

std::string revoke_key(std::string_view text, std::string_view name, const std::string& path) {
  const std::vector<KeyRecord> keys = parse_keys(text, path);
  const auto found = std::ranges::find(keys, name, &KeyRecord::name);
  if (found == keys.end()) {
    std::vector<std::string> names;
    for (const KeyRecord& key : keys) names.push_back(key.name);
    throw Error(ErrorCode::kNotFound, fmt::format("{} has no key '{}'{}", path, name,
                                                  did_you_mean(std::string(name), names)));
  }
  // Removes the lines from the head of this table up to the head of the next table.
  const toml::table file = parse_toml(text, path);
  const std::vector<const toml::table*> tables = tables_of(file, path);
  const auto at = static_cast<size_t>(found - keys.begin());
  const size_t first = tables[at]->source().begin.line;
  size_t last = std::numeric_limits<size_t>::max();
  for (const toml::table* table : tables)
    if (table->source().begin.line > first)
      last = std::min<size_t>(last, table->source().begin.line);
  std::vector<std::string_view> lines;
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(lines.back().size()))
    lines.push_back(rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1));
  // Comments above the next table belong to that table.
  last = std::min(last, lines.size() + 1);
  for (; last > first + 1; --last) {
    const std::string_view above = trimmed(lines[last - 2], " \t\r\n");
    if (!above.empty() && !above.starts_with('#')) break;
  }
  std::string made;
  for (size_t line = 1; line <= lines.size(); ++line)
    if (line < first || line >= last) made += lines[line - 1];
  // In another form, such as key = [{...}], one line can have several keys.
  if (parse_keys(made, path).size() + 1 != keys.size())
    refuse(path, fmt::format("cannot remove the key '{}' from this form of file; write [[key]] for "
                             "each API key, or remove it by hand",
                             name));
  return made;
}

std::string new_key() {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  constexpr size_t kCharacters = 43;  // of 6 bits each
  std::array<unsigned char, kCharacters> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1)
    throw Error(ErrorCode::kIo, "the system cannot provide random numbers for a key");
  std::string key = "billow-";
  for (const unsigned char byte : random) key += kAlphabet[byte % kAlphabet.size()];
  return key;
}

std::string read_keys_file(const std::string& path) {
  const std::optional<store::FileContent> file = store::read_file(path, kMaxFileBytes);
  if (!file) throw Error(ErrorCode::kNotFound, "there is no file of API keys at " + path);
  return file->bytes;
}

KeysFileChange::KeysFileChange(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, failed);
  path_ = failed ? path : real.string();
  while (true) {
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd_ < 0) throw system_error("cannot open the file of API keys", path_, errno);
    struct stat locked{};
    struct stat named{};
    if (::flock(fd_, LOCK_EX) == 0 && ::fstat(fd_, &locked) == 0 &&
        ::stat(path_.c_str(), &named) == 0 && locked.st_ino == named.st_ino &&
        locked.st_dev == named.st_dev)
      return;
    // Another program has replaced the file, unless the lock itself failed.
    const int error = errno;
    ::close(fd_);
    if (locked.st_ino == 0) throw system_error("cannot lock", path_, error);
  }
}

KeysFileChange::~KeysFileChange() { ::close(fd_); }

void KeysFileChange::write(std::string_view text) {
  struct stat old{};
  if (::fstat(fd_, &old) != 0) throw system_error("cannot read", path_, errno);
  NewFile file(path_ + ".XXXXXX");
  if (file.fd() < 0) throw system_error("cannot create a file", file.path(), errno);
  // Only root may change the owner. Any other user owns the file already, or becomes its owner.
  if (::fchown(file.fd(), old.st_uid, old.st_gid) != 0 && errno != EPERM)
    throw system_error("cannot set the owner of", file.path(), errno);
  if (::fchmod(file.fd(), old.st_mode & (S_IRWXU | S_IRWXG)) != 0)
    throw system_error("cannot set the permissions of", file.path(), errno);
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t n = ::write(file.fd(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw system_error("cannot write", file.path(), errno);
    rest.remove_prefix(static_cast<size_t>(n));
  }
  if (::fsync(file.fd()) != 0) throw system_error("cannot write", file.path(), errno);
  if (::rename(file.path().c_str(), path_.c_str()) != 0)
    throw system_error("cannot replace", path_, errno);
  file.keep();
  store::flush_folder(std::filesystem::path(path_).parent_path().string());
}

}  // namespace billow::keys
