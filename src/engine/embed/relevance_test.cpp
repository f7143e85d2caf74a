#include "engine/embed/relevance.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/error.h"
#include "gguf/writer.h"

namespace billow::engine {
namespace {

using Names = std::vector<std::string>;

// Returns a file whose classifier has {r + 1, 10} in row r of [n_labels][2].
std::vector<std::byte> classifier(uint64_t n_labels, const std::optional<Names>& names,
                                  const std::vector<float>& bias = {}) {
  gguf::Writer writer;
  writer.set_string("general.architecture", "qwen3");
  if (names) writer.set_strings("qwen3.classifier.output_labels", *names);
  std::vector<float> rows;
  for (uint64_t i = 0; i < n_labels; ++i) {
    rows.push_back(static_cast<float>(i + 1));
    rows.push_back(10.0f);
  }
  writer.add_tensor("cls.output.weight", 0, std::vector<uint64_t>{2, n_labels},
                    std::as_bytes(std::span(rows)));
  if (!bias.empty())
    writer.add_tensor("cls.output.bias", 0, std::vector<uint64_t>{n_labels},
                      std::as_bytes(std::span(bias)));
  return writer.to_bytes();
}

float score_of(const std::vector<std::byte>& bytes) {
  const std::vector<float> hidden = {2.0f, 3.0f};
  return Relevance(gguf::File::parse(bytes, "tiny.gguf"), 2).score(hidden);
}

std::string refusal_of(const std::vector<std::byte>& bytes) {
  try {
    score_of(bytes);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Relevance, IsTheLogitOfYesMinusThatOfNo) {
  EXPECT_EQ(score_of(classifier(2, Names{"yes", "no"})), 2.0f - 4.0f);
  EXPECT_EQ(score_of(classifier(2, Names{"no", "yes"})), 4.0f - 2.0f);
  EXPECT_EQ(score_of(classifier(2, std::nullopt)), 2.0f - 4.0f) << "yes is first";
  EXPECT_EQ(score_of(classifier(2, Names{"yes", "no"}, {0.5f, 0.25f})), -1.75f);
}

TEST(Relevance, OfOneLabelIsItsLogit) {
  EXPECT_EQ(score_of(classifier(1, std::nullopt)), 32.0f);
  EXPECT_EQ(score_of(classifier(1, Names{"LABEL_0"}, {1.0f})), 33.0f);
}

TEST(Relevance, RefusesOtherLabels) {
  EXPECT_EQ(refusal_of(classifier(2, Names{"good", "bad"})),
            "tiny.gguf: key qwen3.classifier.output_labels should name the two labels yes and no");
  EXPECT_EQ(refusal_of(classifier(3, std::nullopt)),
            "tiny.gguf: tensor cls.output.weight has 3 labels; a decoder ranks by one, or by yes "
            "and no");
  gguf::Writer empty;
  empty.set_string("general.architecture", "qwen3");
  EXPECT_NE(refusal_of(empty.to_bytes()).find("cls.output.weight"), std::string::npos);
}

}  // namespace
}  // namespace billow::engine
