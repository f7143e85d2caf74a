// The wire format of protocol buffers: a message is fields with numbers, each with its value. Every
// length is checked against the bytes before it is used. Views; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace billow::convert {

class ProtobufReader {
 public:
  // `origin` begins each message of an Error. REQUIRES: both live longer than this.
  ProtobufReader(std::string_view message, std::string_view origin)
      : rest_(message), origin_(origin) {}

  // Goes to the next field; false at the end. Throws Error (kInvalidInput) for bytes that are none.
  bool next();

  uint32_t field() const noexcept { return field_; }
  // The value, by its kind in the wire format. Each throws Error where the field is of another.
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
