// Makes random tensors of generated models. The same seed gives the same bytes on every machine.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "gguf/writer.h"
#include "quant/type.h"

namespace billow::reference {

// Random numbers of mean 0 and variance 1. They are equal on every machine, because they use only
// integer arithmetic and sums of exact values.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // Returns the sum of four uniform numbers, which is close to normally distributed.
  float next();

 private:
  uint64_t next_bits();
  uint64_t state_;
};

// Adds random tensors to a writer and keeps their bytes until it has written them.
class TensorMaker {
 public:
  // `writer` must outlive this object.
  TensorMaker(gguf::Writer& writer, uint64_t seed) : writer_(writer), random_(seed) {}

  void vector(const std::string& name, uint64_t n, float mean, float deviation);
  void vector(const std::string& name, const std::vector<float>& values);
  // Adds a matrix. If its rows are not a whole number of groups of the type, uses Q8_0, or F32 if
  // Q8_0 does not fit either.
  void matrix(const std::string& name, quant::Type type, uint64_t n_in, uint64_t n_out,
              float deviation);

 private:
  void add(const std::string& name, quant::Type type, std::span<const uint64_t> shape,
           const std::vector<float>& values);

  gguf::Writer& writer_;
  Random random_;
  std::deque<std::vector<std::byte>> kept_;
};

}  // namespace billow::reference
