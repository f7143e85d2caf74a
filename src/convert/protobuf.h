// Reads the wire format of protocol buffers: a message is a list of numbered fields with values.
// The reader checks each length against the remaining bytes before use. Views, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace billow::convert {

class ProtobufReader {
 public:
  // `origin` begins each error message. REQUIRES: both arguments outlive the reader.
  ProtobufReader(std::string_view message, std::string_view origin)
      : rest_(message), origin_(origin) {}

  // Moves to the next field. Returns false at the end. Throws Error (kInvalidInput) for invalid
  // bytes.
  bool next();

  uint32_t field() const noexcept { return field_; }
  // Return the value of the field. Each function throws Error if the field has another wire type.
  uint64_t number() const;         // bool, enum, int32, ...
  float real() const;              // float
  std::string_view bytes() const;  // string, bytes, a message

 private:
  enum class Kind : uint8_t { kNumber = 0, kEight = 1, kBytes = 2, kFour = 5 };

  uint64_t read_number();
  std::string_view take(uint64_t n_bytes);
  void require(Kind kind) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::string_view rest_;
  std::string_view origin_;
  uint32_t field_ = 0;
  Kind kind_ = Kind::kNumber;
  uint64_t number_ = 0;
  std::string_view bytes_;
};

}  // namespace billow::convert
