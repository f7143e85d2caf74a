// The products that adapters add in one call of linear(). First h = a x for the rows that have an
// adapter, together with the products themselves; then out += b h. LowRankSums is for linear.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nn/adapter.h"
#include "nn/compute.h"
#include "nn/inputs.h"
#include "nn/linear.h"
#include "tensor/tensor.h"

namespace billow::nn {

class LowRankSums {
 public:
  // Plans what the adapters of the rows of `x` add to `products`, whose inputs are `of_products`.
  // Takes scratch memory from the arena. All arguments must outlive this object.
  LowRankSums(const Compute& compute, tensor::Matrix x, std::span<const uint32_t> rows,
              std::span<const RowsProduct> products, const Inputs& of_products);

  // Returns the inputs of the products h = a x that the products themselves do not have. These
  // inputs must be made before first_products() are computed.
  const Inputs& inputs() const noexcept { return inputs_; }
  // A product h = a x: its rows begin at input `begin` of `inputs`, in the layout that `a` needs.
  struct First {
    Product product;
    const Inputs* inputs = nullptr;
    size_t begin = 0;
  };
  std::span<const First> first_products() const noexcept { return firsts_; }
  // out += b h, with all threads. REQUIRES: the products and first_products() are computed.
  void add_to_outputs() const;

 private:
  // Rows of one product that have the same adapter.
  struct Part {
    const LowRank* pair = nullptr;
    tensor::Matrix h;    // one row for each row of the part; at least pair->rank() columns
    tensor::Matrix out;  // the same rows of the product
    size_t end = 0;      // end of its blocks of outputs among the blocks of all parts
  };
  // Adds the part of inputs [begin, end) of a product, which have this adapter.
  void add_part(const Adapter& adapter, const RowsProduct& product, size_t begin, size_t end,
                size_t rank);
  tensor::Matrix h_of(const tensor::Matrix& out, size_t rank);

  const Compute& compute_;
  const Inputs& of_products_;
  Inputs inputs_;
  std::vector<Part> parts_;
  std::vector<First> firsts_;
  // The outputs of a product, with the h of its rows' adapters.
  struct Sums {
    const float* out = nullptr;
    tensor::Matrix h;
  };
  std::vector<Sums> sums_;
};

// x row += the row that its adapter adds to the embedding of its token.
void add_to_embedding(const Compute& compute, std::span<const int32_t> tokens, tensor::Matrix x);

}  // namespace billow::nn
