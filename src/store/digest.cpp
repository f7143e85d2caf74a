#include "store/digest.h"

#include <openssl/evp.h>

#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/regular_file.h"

namespace billow::store {
namespace {

constexpr std::string_view kAlgorithm = "sha256";
constexpr size_t kPartBytes = size_t{1} << 20;

// Returns the value of a hexadecimal digit; 16 for any other character.
unsigned digit_value(char c) noexcept {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return 16;
}

}  // namespace

std::optional<Digest> Digest::parse(std::string_view text) {
  if (!text.starts_with(kAlgorithm)) return std::nullopt;
  text.remove_prefix(kAlgorithm.size());
  if (text.size() != 65 || (text[0] != ':' && text[0] != '-')) return std::nullopt;
  Digest digest;
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    const unsigned high = digit_value(text[1 + 2 * i]);
    const unsigned low = digit_value(text[2 + 2 * i]);
    if (high > 15 || low > 15) return std::nullopt;
    digest.bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return digest;
}

std::string Digest::hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (const uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string Digest::text() const { return std::string(kAlgorithm) + ":" + hex(); }
std::string Digest::file_name() const { return std::string(kAlgorithm) + "-" + hex(); }

struct Hasher::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  if (!state_->context || EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) != 1) {
    throw Error(ErrorCode::kOutOfMemory, "cannot start a SHA-256 hash: libcrypto failed");
  }
}

Hasher::~Hasher() = default;

void Hasher::update(std::span<const std::byte> bytes) {
  BILLOW_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

Digest Hasher::finish() {
  Digest digest;
  unsigned n_bytes = 0;
  BILLOW_CHECK(EVP_DigestFinal_ex(state_->context, digest.bytes.data(), &n_bytes) == 1);
  BILLOW_CHECK(n_bytes == digest.bytes.size());
  return digest;
}

Digest digest_of(std::span<const std::byte> bytes) {
  Hasher hasher;
  hasher.update(bytes);
  return hasher.finish();
}

Digest digest_of(std::string_view text) { return digest_of(std::as_bytes(std::span(text))); }

Digest digest_of_file(const std::string& path,
                      const std::function<void(uint64_t done, uint64_t total)>& progress) {
  const RegularFile file(path);
  Hasher hasher;
  std::vector<std::byte> part(kPartBytes);
  for (uint64_t done = 0;;) {
    const size_t n = file.read_at(done, part);
    if (n == 0) return hasher.finish();
    hasher.update(std::span(part).first(n));
    done += n;
    if (progress) progress(done, file.size_bytes());
  }
}

}  // namespace billow::store
