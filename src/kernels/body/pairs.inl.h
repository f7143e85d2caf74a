// The base of overlays for 16-bit floats.
#pragma once

#include "kernels/body/float_product.inl.h"
#include "kernels/body/math.inl.h"
#include "kernels/body/pair_weights.inl.h"
#include "kernels/body/products.inl.h"
#include "kernels/body/strips.inl.h"
