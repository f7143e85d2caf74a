// Products for activations with outliers: rows in which a few values are far above the rest, so
// that 8-bit codes are too coarse for the others. BERT's states are an example.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "nn/linear.h"

namespace billow::nn {

// Max rows with outliers per correction step; scratch memory holds this many.
inline constexpr size_t kOutlierRows = 64;

// As linear(). If weights take 8-bit codes, rows with outliers also get the products of their
// rounding errors, and become nearly as exact as without codes. The cost rises with the number of
// such rows. A row's result depends only on that row.
void linear_with_outliers(const Compute& compute, tensor::Matrix x,
                          std::initializer_list<Product> products);

}  // namespace billow::nn
