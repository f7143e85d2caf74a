#include "store/adapter_file.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/test_folder.h"
#include "gguf/writer.h"

namespace billow::store {
namespace {

constexpr const char* kAlpha = "adapter.lora.alpha";

// Returns an adapter with one pair for each rank.
std::vector<std::byte> adapter(const std::vector<uint64_t>& ranks, float alpha) {
  const std::vector<std::byte> zeros(1024);
  const std::span<const std::byte> all(zeros);
  gguf::Writer writer;
  if (alpha != 0.0f) writer.set_float(kAlpha, alpha);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const std::string name = "blk." + std::to_string(i) + ".attn_q.weight.lora_";
    const std::span<const std::byte> values = all.first(4 * ranks[i] * sizeof(float));
    writer.add_tensor(name + "a", 0, std::vector<uint64_t>{4, ranks[i]}, values);
    writer.add_tensor(name + "b", 0, std::vector<uint64_t>{ranks[i], 4}, values);
  }
  return writer.to_bytes();
}

float scaled_alpha(const std::vector<std::byte>& bytes, float scale) {
  const TestFolder folder;
  const std::string path = folder.file("blob");
  write_test_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  std::vector<std::byte> out;
  write_scaled_adapter(
      "a.gguf", gguf::File::open_header(path), scale,
      [&](std::span<const std::byte> piece) { out.insert(out.end(), piece.begin(), piece.end()); });
  return static_cast<float>(gguf::File::parse(out, "out").get_float(kAlpha).value_or(0.0));
}

TEST(ScaledAdapter, MultipliesAlphaOrTheRank) {
  EXPECT_EQ(scaled_alpha(adapter({8, 2}, 16.0f), 0.5f), 8.0f);
  EXPECT_EQ(scaled_alpha(adapter({8, 8}, 0.0f), -0.5f), -4.0f);
}

TEST(ScaledAdapter, ErrorsBeginWithTheNameOfTheFile) {
  const auto refusal = [](const std::vector<std::byte>& bytes, float scale) -> std::string {
    try {
      scaled_alpha(bytes, scale);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  for (const float scale :
       {0.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    EXPECT_EQ(refusal(adapter({8}, 16.0f), scale),
              "a.gguf: the scale of an adapter must be a number other than 0");
  EXPECT_EQ(refusal(adapter({8, 2}, 0.0f), 0.5f),
            "a.gguf: cannot scale an adapter without an alpha and with several "
            "ranks");
}

}  // namespace
}  // namespace billow::store
