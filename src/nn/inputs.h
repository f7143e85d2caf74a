// Rows of activations in the layouts that products need. Only for linear.cpp and low_rank.cpp.
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

// Rows of x in each activation layout that the products' weights need, quantized once. Rows that go
// through different weights are in separate groups.
class Inputs {
 public:
  // Input i is row rows[i] of x, or row i if `rows` is empty.
  Inputs(const Compute& compute, tensor::Matrix x, std::span<const uint32_t> rows)
      : compute_(compute), x_(x), rows_(rows) {}
  size_t size() const { return rows_.empty() ? x_.n_rows : rows_.size(); }
  size_t row_of(size_t input) const { return rows_.empty() ? input : rows_[input]; }

  // Adds inputs [begin, end) in `layout` to the work of make(). REQUIRES: runs that begin at the
  // same input are equal, and are added one after another.
  void add(const kernels::ActivationLayout* layout, size_t begin, size_t end);
  // Returns whether one add() call added exactly inputs [begin, end) in `layout`.
  bool has(const kernels::ActivationLayout* layout, size_t begin, size_t end) const;
  // Returns the bytes of input 0; null if nothing has this layout.
  std::byte* find(const kernels::ActivationLayout* layout) const;

  // Quantizes all that was added to both, with all threads.
  static void make(const Compute& compute, const Inputs& a, const Inputs& b);

 private:
  struct Made {
    const kernels::ActivationLayout* layout = nullptr;
    std::byte* bytes = nullptr;
  };
  struct Run {
    const kernels::ActivationLayout* layout = nullptr;
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
