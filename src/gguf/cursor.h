// Reads the bytes of one file in sequence. Checks every read against the remaining bytes. Error
// messages name the file, the place and the byte. Owns nothing; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace billow::gguf {

// The item that is being read, such as: metadata entry 3 "general.name". The name is empty until it
// has been read.
struct Place {
  std::string_view kind = "header";
  uint64_t index = 0;
  std::string_view name;
};

// Returns `text` in quotes for a message: shortened, on one line, valid UTF-8.
std::string quoted(std::string_view text);

// Returns an Error about `file`, without a place in the file.
Error file_error(std::string_view file, const std::string& what,
                 ErrorCode code = ErrorCode::kInvalidInput);

// Thrown if the available bytes end before the file does. The parser needs at least the first
// n_bytes of the file. The caller catches it and reads more of the file.
struct MoreBytesNeeded {
  uint64_t n_bytes = 0;
};

class Cursor {
 public:
  // `bytes` are the beginning of a file of `file_bytes`; `file` is its name in messages.
  Cursor(std::span<const std::byte> bytes, uint64_t file_bytes, std::string_view file)
      : bytes_(bytes), file_bytes_(file_bytes), file_(file) {}

  uint64_t offset() const noexcept { return offset_; }
  uint64_t remaining() const noexcept { return file_bytes_ - offset_; }  // in the file

  // Sets the place for later error messages.
  void enter(const Place& place) noexcept { place_ = place; }

  // Returns the next n bytes. `what` names them in an error message. Throws MoreBytesNeeded if the
  // file has the bytes but `bytes` does not.
  std::span<const std::byte> take(uint64_t n, std::string_view what);

  // Reads the next number: little-endian, any alignment.
  template <typename T>
  T read(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  // Throws an Error at the last item that was taken.
  [[noreturn]] void fail(const std::string& what, ErrorCode code = ErrorCode::kInvalidInput) const;
  // Throws an Error at `place`, without a byte offset.
  [[noreturn]] void fail_at(const Place& place, const std::string& what) const;

 private:
  std::span<const std::byte> bytes_;
  uint64_t file_bytes_;
  std::string_view file_;
  Place place_;
  uint64_t offset_ = 0;
  uint64_t item_ = 0;  // start of the last item that was taken
};

}  // namespace billow::gguf
