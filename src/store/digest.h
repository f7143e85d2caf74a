// SHA-256 digests, which name all content of a store. A Digest is plain data. A Hasher owns the
// state of one hash and belongs to one thread.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace billow::store {

struct Digest {
  std::array<uint8_t, 32> bytes{};

  // Parses "sha256:" or "sha256-" and 64 hexadecimal digits. Returns nullopt for any other text.
  static std::optional<Digest> parse(std::string_view text);

  std::string hex() const;        // 64 digits, lower case
  std::string text() const;       // "sha256:<hex>"
  std::string file_name() const;  // "sha256-<hex>", the file name of a blob
  auto operator<=>(const Digest&) const = default;
};

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void update(std::span<const std::byte> bytes);
  // Returns the digest of all bytes passed to update(). REQUIRES: no call follows.
  Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest digest_of(std::span<const std::byte> bytes);
Digest digest_of(std::string_view text);

// Returns the digest of a file's content. `progress`, if given, runs after each piece with the
// hashed bytes and the file size. If it throws, the hashing ends. Throws Error if the file cannot
// be read or is not a regular file.
Digest digest_of_file(const std::string& path,
                      const std::function<void(uint64_t done, uint64_t total)>& progress = {});

}  // namespace billow::store
