// The tables that the files of this folder define, one each.
#pragma once

#include "kernels/kernel_table.h"

namespace billow::kernels {

extern const KernelTable kScalar;
extern const KernelTable kAvx2;
extern const KernelTable kAvx512;

}  // namespace billow::kernels
