// A position in the bytes of one file: every read is checked against what is left, and a failure is
// an Error that names the file, the place and the byte. Owns nothing; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace billow::gguf {

// What is being read: "metadata entry 3 "general.name"". The name is empty until it is known.
struct Place {
  std::string_view kind = "header";
  uint64_t index = 0;
  std::string_view name;
};

// `text` in quotes for a message: shortened, on one line, valid UTF-8.
std::string quoted(std::string_view text);

// An Error about `file`, without a place in it.
Error file_error(std::string_view file, const std::string& what,
                 ErrorCode code = ErrorCode::kInvalidInput);

// Thrown when the file goes on where the bytes at hand end: at least so many of its first bytes are
// needed. Caught where more of the file can be read.
struct MoreBytesNeeded {
  uint64_t n_bytes = 0;
};

class Cursor {
 public:
  // `bytes` are the first of the file's `file_bytes`; `file` is for messages.
  Cursor(std::span<const std::byte> bytes, uint64_t file_bytes, std::string_view file)
      : bytes_(bytes), file_bytes_(file_bytes), file_(file) {}

  uint64_t offset() const noexcept { return offset_; }
  uint64_t remaining() const noexcept { return file_bytes_ - offset_; }  // in the file

  // Failures from now on are at `place`.
  void enter(const Place& place) noexcept { place_ = place; }

  // The next n bytes; `what` names them should they be missing. Throws MoreBytesNeeded when the
  // file has them and the bytes at hand do not.
  std::span<const std::byte> take(uint64_t n, std::string_view what);

  // The next number, little-endian and of any alignment.
  template <typename T>
  T read(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  // An Error at the item that was taken last.
  [[noreturn]] void fail(const std::string& what, ErrorCode code = ErrorCode::kInvalidInput) const;
  // An Error at `place`, of no particular byte.
  [[noreturn]] void fail_at(const Place& place, const std::string& what) const;

 private:
  std::span<const std::byte> bytes_;
  uint64_t file_bytes_;
  std::string_view file_;
  Place place_;
  uint64_t offset_ = 0;
  uint64_t item_ = 0;  // where the item that was taken last begins
};

}  // namespace billow::gguf
