// All bodies, for the files of isa/ that fill a whole table. The file includes its vector
// vocabulary first.
#pragma once

#include "kernels/body/attention.inl.h"
#include "kernels/body/attention_softmax.inl.h"
#include "kernels/body/attention_tile.inl.h"
#include "kernels/body/encoder_attention.inl.h"
#include "kernels/body/float_product.inl.h"
#include "kernels/body/integer_product.inl.h"
#include "kernels/body/kv_store.inl.h"
#include "kernels/body/low_rank.inl.h"
#include "kernels/body/math.inl.h"
#include "kernels/body/pack.inl.h"
#include "kernels/body/products.inl.h"
#include "kernels/body/quantize.inl.h"
#include "kernels/body/rows.inl.h"
#include "kernels/body/strips.inl.h"
#include "kernels/body/table.inl.h"
