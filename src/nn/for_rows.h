// Runs independent work for each row.
#pragma once

#include <cstddef>

#include "nn/compute.h"

namespace billow::nn {

// Calls each(row) for rows 0 .. n_rows - 1, on all threads if there are enough rows. Does nothing
// in a sizing pass.
template <class Each>
void for_rows(const Compute& compute, size_t n_rows, Each each) {
  if (compute.sizing != nullptr) return;
  constexpr size_t kRowsAtOnce = 8;
  compute.team.for_pieces(n_rows, kRowsAtOnce, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) each(i);
  });
}

}  // namespace billow::nn
