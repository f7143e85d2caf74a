// Rows of activations in the forms that products take. For linear.cpp and low_rank.cpp alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_table.h"
#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

// Rows of x in each form that the weights of their products want, made once. Rows that go through
// different weights stand in groups of their own.
class Inputs {
 public:
  // Input i is row rows[i] of x, or row i where `rows` is empty.
  Inputs(const Compute& compute, tensor::Matrix x, std::span<const uint32_t> rows)
      : compute_(compute), x_(x), rows_(rows) {}
  size_t size() const { return rows_.empty() ? x_.n_rows : rows_.size(); }
  size_t row_of(size_t input) const { return rows_.empty() ? input : rows_[input]; }

  // Inputs [begin, end) in `form`, which are made by make(). REQUIRES: runs that begin at the same
  // input are equal, and are added one behind the other.
  void add(const kernels::ActivationLayout* form, size_t begin, size_t end);
  // Whether exactly inputs [begin, end) were added together in `form`.
  bool has(const kernels::ActivationLayout* form, size_t begin, size_t end) const;
  // Of input 0; null where there is none.
  std::byte* find(const kernels::ActivationLayout* form) const;

  // Makes all that was added to both, with all threads.
  static void make(const Compute& compute, const Inputs& a, const Inputs& b);

 private:
  struct Made {
    const kernels::ActivationLayout* form = nullptr;
    std::byte* bytes = nullptr;
  };
  struct Run {
    const kernels::ActivationLayout* form = nullptr;
    size_t begin = 0;
    size_t end = 0;
    size_t first_group = 0;
    size_t last_group = 0;
  };
  size_t n_groups() const { return runs_.empty() ? 0 : runs_.back().last_group; }
  void make_group(size_t group) const;

  const Compute& compute_;
  tensor::Matrix x_;
  std::span<const uint32_t> rows_;
  std::array<Made, 4> made_;
  size_t n_ = 0;
  std::vector<Run> runs_;
};

}  // namespace billow::nn
