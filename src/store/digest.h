// SHA-256 digests, the names of all content in a store. A Digest is plain data; a Hasher owns the
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

  // "sha256:" or "sha256-" and 64 hexadecimal digits; nullopt for anything else.
  static std::optional<Digest> parse(std::string_view text);

  std::string hex() const;        // 64 digits, lower case
  std::string text() const;       // "sha256:<hex>"
  std::string file_name() const;  // "sha256-<hex>", the name of a blob's file
  auto operator<=>(const Digest&) const = default;
};

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void update(std::span<const std::byte> bytes);
  // Of all that was given. Ends the hash: nothing may be called behind it.
  Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest digest_of(std::span<const std::byte> bytes);
Digest digest_of(std::string_view text);

// Of a file's content. `progress`, where given, is called after each part with the bytes done and
// the size of the file; what it throws ends the hashing. Throws Error when the file cannot be
// read or is no regular file.
Digest digest_of_file(const std::string& path,
                      const std::function<void(uint64_t done, uint64_t total)>& progress = {});

}  // namespace billow::store
