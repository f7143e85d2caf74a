// Products for activations with outliers: rows in which a few values tower above the rest, which
// leave 8-bit codes little room for the others. BERT's states are such.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "nn/linear.h"

namespace billow::nn {

// Rows with outliers that are computed again at once; scratch holds so many.
inline constexpr size_t kOutlierRows = 64;

// As linear(); where weights take 8-bit codes, rows with outliers also get the products of what
// rounding left over of them, and are nearly as exact as without codes. It costs the share of such
// rows. A row's result depends on that row alone.
void linear_with_outliers(const Compute& compute, tensor::Matrix x,
                          std::initializer_list<Product> products);

}  // namespace billow::nn
