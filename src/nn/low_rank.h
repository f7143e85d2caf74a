// What adapters add to the products of one call of linear(): first h = a x for the rows that have
// an adapter, beside the products themselves, then out += b h. For linear.cpp alone.
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
  // Plans what the adapters of the rows of `x` add to `products`, whose inputs are `of_products`;
  // takes scratch from the arena. All arguments must outlive it.
  LowRankSums(const Compute& compute, tensor::Matrix x, std::span<const uint32_t> rows,
              std::span<const RowsProduct> products, const Inputs& of_products);

  // Inputs of the products h = a x beside those of the products themselves, to be made before these
  // are computed.
  const Inputs& inputs() const noexcept { return inputs_; }
  // Those products: input `begin` and on of `inputs`, in the form that `a` wants.
  struct First {
    Product product;
    const Inputs* inputs = nullptr;
    size_t begin = 0;
  };
  std::span<const First> first_products() const noexcept { return firsts_; }
  // out += b h, with all threads. REQUIRES: the products and those of first_products() are
  // computed.
  void add_to_outputs() const;

 private:
  // Rows of one product that have the same adapter.
  struct Part {
    const LowRank* pair = nullptr;
    tensor::Matrix h;    // a row each; wider than the rank
    tensor::Matrix out;  // the same rows of the product
    size_t end = 0;      // of its blocks of outputs among those of all parts
  };
  // What the adapter of inputs [begin, end) adds to the product.
  void add_part(const Adapter& adapter, const RowsProduct& product, size_t begin, size_t end,
                size_t rank);
  tensor::Matrix h_of(const tensor::Matrix& out, size_t rank);

  const Compute& compute_;
  const Inputs& of_products_;
  Inputs inputs_;
  std::vector<Part> parts_;
  std::vector<First> firsts_;
  // The products' outputs, each with what its rows' adapters make of the inputs.
  struct Sums {
    const float* out = nullptr;
    tensor::Matrix h;
  };
  std::vector<Sums> sums_;
};

// x row += what the row's adapter adds to the embedding of its token.
void add_to_embedding(const Compute& compute, std::span<const int32_t> tokens, tensor::Matrix x);

}  // namespace billow::nn
