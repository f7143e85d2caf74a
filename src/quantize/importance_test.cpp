#include "quantize/importance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "gguf/writer.h"

namespace billow::quantize {
namespace {

using Bytes = std::vector<std::byte>;

void put(Bytes& bytes, const void* data, size_t n) {
  const auto* from = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), from, from + n);
}
void put(Bytes& bytes, int32_t number) { put(bytes, &number, sizeof number); }
void put(Bytes& bytes, const std::string& text) {
  put(bytes, static_cast<int32_t>(text.size()));
  put(bytes, text.data(), text.size());
}
void put(Bytes& bytes, const std::vector<float>& values) {
  put(bytes, static_cast<int32_t>(values.size()));
  put(bytes, values.data(), values.size() * sizeof(float));
}

// Returns a file of the older form with one entry of two columns.
Bytes numbers_file() {
  Bytes bytes;
  put(bytes, 1);
  put(bytes, std::string("a.weight"));
  put(bytes, 4);
  put(bytes, std::vector<float>{8.0f, 2.0f});
  return bytes;
}

struct GgufParts {
  std::vector<float> sums = {6.0f, 3.0f, 9.0f, 9.0f};
  std::vector<float> counts = {3.0f, 0.0f};
  bool has_keys = true;
  bool has_counts = true;
};

Bytes gguf_file(const GgufParts& parts) {
  gguf::Writer writer;
  const std::vector<std::string> datasets = {"one.txt", "two.txt"};
  if (parts.has_keys) writer.set_strings("imatrix.datasets", datasets);
  writer.set_uint("imatrix.chunk_count", 7);
  writer.set_uint("imatrix.chunk_size", 512);
  const uint64_t n = parts.counts.size();
  writer.add_tensor("a.weight.in_sum2", 0, std::vector<uint64_t>{parts.sums.size() / n, n},
                    std::as_bytes(std::span(parts.sums)));
  if (parts.has_counts) {
    writer.add_tensor("a.weight.counts", 0, std::vector<uint64_t>{1, n},
                      std::as_bytes(std::span(parts.counts)));
  }
  return writer.to_bytes();
}

std::string refusal(const Bytes& bytes) {
  try {
    parse_importance(bytes, "file");
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(ImportanceTest, GgufFormGivesMeansAndOnesForUnusedMatrices) {
  const Importance importance = parse_importance(gguf_file({}), "file");
  EXPECT_EQ(importance.entries.at("a.weight"), (std::vector<float>{2.0f, 1.0f, 1.0f, 1.0f}));
  EXPECT_EQ(importance.n_chunks, 7u);
  EXPECT_EQ(importance.datasets, (std::vector<std::string>{"one.txt", "two.txt"}));
}

TEST(ImportanceTest, OlderFormDividesValuesByCalls) {
  Bytes bytes = numbers_file();
  const Importance bare = parse_importance(bytes, "file");
  EXPECT_EQ(bare.entries.at("a.weight"), (std::vector<float>{2.0f, 0.5f}));
  EXPECT_TRUE(bare.datasets.empty());
  put(bytes, 9);
  put(bytes, std::string("text"));
  const Importance whole = parse_importance(bytes, "file");
  EXPECT_EQ(whole.n_chunks, 9u);
  EXPECT_EQ(whole.datasets, std::vector<std::string>{"text"});
}

TEST(ImportanceTest, RefusesATruncatedFile) {
  const Bytes bytes = numbers_file();
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_EQ(refusal(Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n))).substr(0, 6),
              "file: ")
        << n;
  }
}

TEST(ImportanceTest, RefusesLengthsBeyondTheFile) {
  for (const int32_t number : {-1, 1 << 30, std::numeric_limits<int32_t>::max()}) {
    Bytes bytes = numbers_file();
    std::memcpy(bytes.data() + 20, &number, sizeof number);  // number of values
    EXPECT_EQ(refusal(bytes).substr(0, 6), "file: ") << number;
    bytes = numbers_file();
    std::memcpy(bytes.data() + 4, &number, sizeof number);  // length of the name
    EXPECT_EQ(refusal(bytes).substr(0, 6), "file: ") << number;
  }
}

TEST(ImportanceTest, RefusesMissingCountsMissingKeysAndNan) {
  EXPECT_EQ(refusal(gguf_file({.has_counts = false})),
            "file: the entry of 'a.weight' has sums without counts");
  EXPECT_NE(refusal(gguf_file({.has_keys = false})).find("not an importance matrix"),
            std::string::npos);
  EXPECT_NE(refusal(gguf_file({.sums = {1.0f, NAN}, .counts = {1.0f}})).find("not finite"),
            std::string::npos);
}

TEST(ImportanceTest, RefusesNumbersThatNoMeanOfSquaresHas) {
  const auto refusal_of = [](std::vector<float> sums) {
    return refusal(gguf_file({.sums = std::move(sums), .counts = {2.0f}}));
  };
  EXPECT_EQ(refusal_of({0.0f, 2e20f}), "none");
  EXPECT_EQ(refusal_of({1.0f, -1e-9f}),
            "file: the entry of 'a.weight' has a number that is less than 0; measure the matrix "
            "again with billow imatrix");
  EXPECT_NE(refusal_of({1.0f, 2.1e20f}).find("'a.weight' has a number that is more than 1e20"),
            std::string::npos);
  Bytes bytes = numbers_file();
  const float negative = -2.0f;
  std::memcpy(bytes.data() + bytes.size() - sizeof negative, &negative, sizeof negative);
  EXPECT_NE(refusal(bytes).find("'a.weight' has a number that is less than 0"), std::string::npos);
}

TEST(ImportanceTest, RefusesCountsThatAreNone) {
  for (const float count : {-1.0f, NAN, INFINITY}) {
    EXPECT_EQ(refusal(gguf_file({.sums = {1.0f, 1.0f}, .counts = {count}})),
              "file: tensor 'a.weight.counts' has a number that is not a count");
  }
  Bytes bytes = numbers_file();
  const int32_t calls = -4;
  std::memcpy(bytes.data() + 16, &calls, sizeof calls);
  EXPECT_EQ(refusal(bytes), "file: the calls of 'a.weight' are less than 0");
}

}  // namespace
}  // namespace billow::quantize
