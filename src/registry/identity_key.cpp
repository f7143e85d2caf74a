#include "registry/identity_key.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "base/base64.h"
#include "base/error.h"
#include "store/folder.h"

namespace billow::registry {
namespace {

constexpr std::string_view kBegin = "-----BEGIN OPENSSH PRIVATE KEY-----";
constexpr std::string_view kEnd = "-----END OPENSSH PRIVATE KEY-----";
constexpr std::string_view kMagic("openssh-key-v1\0", 15);
constexpr std::string_view kKind = "ssh-ed25519";
constexpr std::string_view kNone = "none";  // cipher and key derivation
constexpr size_t kBlockBytes = 8;           // the private part is padded to a multiple of this size
constexpr size_t kLineBytes = 70;           // line length of base64 text
constexpr uint64_t kMaxFileBytes = 64 << 10;

using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

PrivateKey private_key(const std::array<uint8_t, 32>& seed) {
  PrivateKey key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()),
                 EVP_PKEY_free);
  if (!key) throw Error(ErrorCode::kUnsupported, "libcrypto has no ed25519 keys");
  return key;
}

// Appends a number. Numbers are big-endian; a string follows its length.
void put_number(std::string& out, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(number >> shift & 0xff);
}
void put_string(std::string& out, std::string_view text) {
  put_number(out, static_cast<uint32_t>(text.size()));
  out += text;
}

// Reads numbers and strings; returns nullopt after the end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::optional<uint32_t> number() {
    if (rest_.size() < 4) return std::nullopt;
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(rest_[i]);
    rest_.remove_prefix(4);
    return value;
  }
  std::optional<std::string_view> string() {
    const std::optional<uint32_t> length = number();
    if (!length || *length > rest_.size()) return std::nullopt;
    const std::string_view text = rest_.substr(0, *length);
    rest_.remove_prefix(*length);
    return text;
  }
  bool skip(std::string_view wanted) {
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

std::string_view text_of(const std::array<uint8_t, 32>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string public_blob(const std::array<uint8_t, 32>& key) {
  std::string blob;
  put_string(blob, kKind);
  put_string(blob, text_of(key));
  return blob;
}

// Returns the text between the first and last line of the file.
std::string_view armoured(std::string_view text) {
  const size_t begin = text.find(kBegin);
  if (begin == std::string_view::npos) return {};
  const size_t first = begin + kBegin.size();
  const size_t end = text.find(kEnd, first);
  return end == std::string_view::npos ? std::string_view() : text.substr(first, end - first);
}

// Returns the seed of the only key in the private part; nullopt if the part is broken.
std::optional<std::string_view> seed_of(std::string_view private_part) {
  Reader reader(private_part);
  const auto check = reader.number();
  const auto again = reader.number();
  if (!check || !again || *check != *again) return std::nullopt;
  const auto kind = reader.string();
  const auto key = reader.string();
  const auto pair = reader.string();  // the seed, then the public key once more
  const auto comment = reader.string();
  if (kind != kKind || !key || key->size() != 32 || !pair || pair->size() != 64 || !comment ||
      pair->substr(32) != *key) {
    return std::nullopt;
  }
  return pair->substr(0, 32);
}

[[noreturn]] void throw_system(const std::string& path, const char* what) {
  throw Error(ErrorCode::kIo, path + ": " + what + ": " + std::strerror(errno));
}

// Writes `text` and closes `fd`.
void write_file(int fd, const std::string& path, std::string_view text) {
  const bool is_written =
      ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(fd) == 0;
  if (::close(fd) != 0 || !is_written) throw_system(path, "cannot be written");
}

// A temporary file next to another file, readable only by its user. The destructor removes it.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& path, std::string_view text) : path_(path + ".XXXXXX") {
    const int fd = ::mkstemp(path_.data());
    if (fd < 0) throw_system(path, "cannot be created");
    try {
      write_file(fd, path, text);
    } catch (...) {
      ::unlink(path_.c_str());
      throw;
    }
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

IdentityKey::IdentityKey(const Bytes32& seed) : seed_(seed) {
  size_t length = public_.size();
  if (EVP_PKEY_get_raw_public_key(private_key(seed).get(), public_.data(), &length) != 1)
    throw Error(ErrorCode::kUnsupported, "libcrypto has no public key for an ed25519 key");
}

IdentityKey IdentityKey::make() {
  Bytes32 seed;
  if (RAND_bytes(seed.data(), static_cast<int>(seed.size())) != 1)
    throw Error(ErrorCode::kIo, "cannot get random numbers for a key");
  return IdentityKey(seed);
}

IdentityKey IdentityKey::parse(std::string_view text, const std::string& origin) {
  const auto fail = [&](const std::string& why) {
    return Error(ErrorCode::kInvalidInput, origin + ": " + why);
  };
  const std::optional<std::string> bytes = base64_decoded(armoured(text));
  if (!bytes || bytes->empty()) throw fail("this is not a private key in OpenSSH format");
  Reader reader(*bytes);
  if (!reader.skip(kMagic)) throw fail("this is not a private key in OpenSSH format");
  const auto cipher = reader.string();
  const auto derivation = reader.string();
  const auto derivation_options = reader.string();
  const auto n_keys = reader.number();
  const auto public_part = reader.string();
  const auto private_part = reader.string();
  if (!cipher || !derivation || !derivation_options || !n_keys || !public_part || !private_part)
    throw fail("the key is incomplete");
  if (*cipher != kNone) throw fail("the key has a passphrase; registries need one without");
  if (*n_keys != 1)
    throw fail("the file has " + std::to_string(*n_keys) + " keys but must have one");
  if (Reader(*public_part).string() != kKind) throw fail("the key is not of the kind ssh-ed25519");
  const std::optional<std::string_view> seed = seed_of(*private_part);
  if (!seed) throw fail("the key is damaged");
  Bytes32 chosen;
  std::copy_n(seed->begin(), chosen.size(), chosen.begin());
  const IdentityKey key(chosen);
  if (public_blob(key.public_) != *public_part)
    throw fail("the private key and the public key do not match");
  return key;
}

IdentityKey IdentityKey::load_or_make(const std::string& path) {
  if (const auto file = store::read_file(path, kMaxFileBytes)) return parse(file->bytes, path);
  const std::string folder = std::filesystem::path(path).parent_path();
  std::error_code code;
  if (!folder.empty() && std::filesystem::create_directories(folder, code))
    ::chmod(folder.c_str(), 0700);
  if (code) throw Error(ErrorCode::kIo, folder + ": cannot be created: " + code.message());
  const IdentityKey key = make();
  const TemporaryFile mine(path, key.to_text());
  // link() never replaces a key that another program has created in the meantime.
  if (::link(mine.path().c_str(), path.c_str()) != 0) {
    if (errno != EEXIST) throw_system(path, "cannot be created");
    const auto file = store::read_file(path, kMaxFileBytes);
    if (!file) throw Error(ErrorCode::kIo, path + ": exists but is not a readable file");
    return parse(file->bytes, path);
  }
  const std::string public_path = path + ".pub";
  const int fd = ::open(public_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) throw_system(public_path, "cannot be written");
  write_file(fd, public_path, key.public_line() + "\n");
  return key;
}

std::string IdentityKey::to_text() const {
  std::string private_part;
  uint32_t check = 0;  // detects a wrong passphrase; any value works without one
  std::memcpy(&check, public_.data(), sizeof check);
  put_number(private_part, check);
  put_number(private_part, check);
  put_string(private_part, kKind);
  put_string(private_part, text_of(public_));
  put_string(private_part, std::string(text_of(seed_)).append(text_of(public_)));
  put_string(private_part, "");
  for (char i = 1; private_part.size() % kBlockBytes != 0; ++i) private_part += i;
  std::string bytes(kMagic);
  put_string(bytes, kNone);
  put_string(bytes, kNone);
  put_string(bytes, "");
  put_number(bytes, 1);
  put_string(bytes, public_blob(public_));
  put_string(bytes, private_part);
  const std::string encoded = base64_encoded(bytes);
  std::string text(kBegin);
  text += '\n';
  for (size_t at = 0; at < encoded.size(); at += kLineBytes)
    text.append(encoded, at, kLineBytes) += '\n';
  return text.append(kEnd) += '\n';
}

std::string IdentityKey::public_text() const { return base64_encoded(public_blob(public_)); }

std::string IdentityKey::public_line() const { return std::string(kKind) + " " + public_text(); }

std::string IdentityKey::sign(std::string_view message) const {
  const PrivateKey key = private_key(seed_);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  std::array<uint8_t, 64> signature;
  size_t length = signature.size();
  if (!context || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), signature.data(), &length,
                     reinterpret_cast<const uint8_t*>(message.data()), message.size()) != 1) {
    throw Error(ErrorCode::kUnsupported, "libcrypto cannot sign with an ed25519 key");
  }
  return base64_encoded({reinterpret_cast<const char*>(signature.data()), length});
}

}  // namespace billow::registry
