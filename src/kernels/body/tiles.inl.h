// The products with tiles and their base. The file that includes this one defines Tiles first.
#pragma once

#include "kernels/body/attention_read.inl.h"
#include "kernels/body/bf16_form.inl.h"
#include "kernels/body/encoder_attention_tiles.inl.h"
#include "kernels/body/integer_product.inl.h"
#include "kernels/body/quantize.inl.h"
#include "kernels/body/tile_bf16.inl.h"
#include "kernels/body/tile_codes.inl.h"
#include "kernels/body/tile_decoded.inl.h"
#include "kernels/body/tile_overlay.inl.h"
