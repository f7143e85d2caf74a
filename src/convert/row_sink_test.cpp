#include "convert/row_sink.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace billow::convert {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class RowSinkTest : public testing::Test {
 protected:
  // Writes the numbers as they are and after encoding. Returns the message of both, or "".
  std::string refusal(const char* name, quant::Type type, const std::vector<float>& values) {
    std::vector<std::byte> bytes(quant::row_bytes(type, values.size()));
    quant::row(type).encode(values.data(), values.size(), bytes.data());
    std::vector<float> own = values;
    const std::string of_copy = message([&] { RowSink(name, type, sink_).copy(bytes); });
    EXPECT_EQ(message([&] { RowSink(name, type, sink_).encode(own, own.size()); }), of_copy);
    return of_copy;
  }

  std::vector<std::byte> bytes_;
  gguf::Writer::Sink sink_ = [this](std::span<const std::byte> piece) {
    bytes_.insert(bytes_.end(), piece.begin(), piece.end());
  };

 private:
  template <class Run>
  static std::string message(const Run& run) {
    try {
      run();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(RowSinkTest, RefusesNumbersThatAreNotFinite) {
  for (const quant::Type type : {quant::Type::kF32, quant::Type::kF16, quant::Type::kBF16}) {
    EXPECT_EQ(refusal("a.weight", type, {1.0f, -2.0f}), "");
    for (const float odd : {kInfinity, -kInfinity, std::nanf("")}) {
      EXPECT_EQ(refusal("a.weight", type, {1.0f, odd}).find("tensor 'a.weight' has numbers that"),
                0u);
    }
  }
}

TEST_F(RowSinkTest, LimitsMayBeInfinite) {
  for (const char* name : {"v.blk.0.attn_q.input_min", "v.blk.0.attn_q.input_max",
                           "v.blk.0.attn_q.output_min", "v.blk.0.attn_q.output_max"}) {
    bytes_.clear();
    EXPECT_EQ(refusal(name, quant::Type::kF32, {-kInfinity}), "");
    float written[2] = {};
    ASSERT_EQ(bytes_.size(), sizeof written);
    std::memcpy(written, bytes_.data(), sizeof written);
    EXPECT_EQ(written[0], -kInfinity);
    EXPECT_EQ(written[1], -kInfinity);
    EXPECT_NE(refusal(name, quant::Type::kF32, {std::nanf("")}), "");
  }
}

}  // namespace
}  // namespace billow::convert
