// Creates encoders from generated models, and computes vectors.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "engine/embed/encoder_model.h"
#include "engine/tiny_engine.h"
#include "reference/tiny_encoder.h"

namespace billow::engine {

using Vector = std::vector<float>;

// A generated encoder file in memory, and the model loaded from it.
struct TinyEncoder {
  explicit TinyEncoder(const reference::TinyEncoderOptions& encoder,
                       const EngineOptions& options = {.n_threads = 1})
      : TinyEncoder(reference::make_tiny_encoder(encoder), options) {}
  explicit TinyEncoder(std::vector<std::byte> file, const EngineOptions& options = {.n_threads = 1})
      : bytes(std::move(file)), model(gguf::File::parse(bytes, "tiny.gguf"), options) {}
  std::vector<std::byte> bytes;
  EncoderModel model;
};

// Computes the vectors of all texts in one pass.
inline std::vector<EmbedVector> embedded(EmbedModel& model, std::span<const EmbedText> texts) {
  std::vector<const EmbedText*> pointers;
  for (const EmbedText& text : texts) pointers.push_back(&text);
  std::vector<EmbedVector> out(texts.size());
  model.embed(pointers, out);
  return out;
}

inline Vector vector_of(EmbedModel& model, const EmbedText& text) {
  const EmbedVector found = embedded(model, {&text, 1})[0];
  EXPECT_EQ(found.error, "");
  return found.values;
}

inline EmbedText random_text(size_t n, unsigned seed) {
  return {.tokens = random_tokens(n, 130, seed)};
}

// Returns |found - expected| / |expected|.
inline double error_of(const Vector& expected, const Vector& found) {
  EXPECT_EQ(expected.size(), found.size());
  double difference = 0.0;
  double length = 0.0;
  for (size_t i = 0; i < std::min(expected.size(), found.size()); ++i) {
    const double e = static_cast<double>(expected[i]);
    difference += std::pow(e - static_cast<double>(found[i]), 2);
    length += e * e;
  }
  return std::sqrt(difference / length);
}

}  // namespace billow::engine
