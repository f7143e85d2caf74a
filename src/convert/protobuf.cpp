#include "convert/protobuf.h"

#include <bit>
#include <cstring>

#include "base/error.h"

static_assert(std::endian::native == std::endian::little, "floats are copied without conversion");

namespace billow::convert {

void ProtobufReader::fail(const std::string& what) const {
  throw Error(ErrorCode::kInvalidInput, std::string(origin_) + ": " + what);
}

uint64_t ProtobufReader::read_number() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) fail("cut off in a number");
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  fail("a number of more than 64 bits");
}

std::string_view ProtobufReader::take(uint64_t n_bytes) {
  if (n_bytes > rest_.size()) fail("cut off: a field extends beyond its end");
  const std::string_view bytes = rest_.substr(0, static_cast<size_t>(n_bytes));
  rest_.remove_prefix(bytes.size());
  return bytes;
}

bool ProtobufReader::next() {
  if (rest_.empty()) return false;
  const uint64_t tag = read_number();
  if (tag >> 3 == 0 || tag >> 32 != 0) fail("a field without a number");
  field_ = static_cast<uint32_t>(tag >> 3);
  kind_ = static_cast<Kind>(tag & 7);
  switch (kind_) {
    case Kind::kNumber:
      number_ = read_number();
      return true;
    case Kind::kEight:
      bytes_ = take(8);
      return true;
    case Kind::kFour:
      bytes_ = take(4);
      return true;
    case Kind::kBytes:
      bytes_ = take(read_number());
      return true;
  }
  fail("a field of an unknown type");
}

void ProtobufReader::require(Kind kind) const {
  if (kind_ != kind) fail("field " + std::to_string(field_) + " has another type");
}

uint64_t ProtobufReader::number() const {
  require(Kind::kNumber);
  return number_;
}

float ProtobufReader::real() const {
  require(Kind::kFour);
  float value = 0;
  std::memcpy(&value, bytes_.data(), sizeof value);
  return value;
}

std::string_view ProtobufReader::bytes() const {
  require(Kind::kBytes);
  return bytes_;
}

}  // namespace billow::convert
