// Families with a SigLIP encoder: Gemma 3, Idefics 3 with SmolVLM, and LFM2-VL.
#include "convert/projectors/projectors.h"

namespace billow::convert {
namespace {

// --- Gemma 3 ---

constexpr std::string_view kGemma3Classes[] = {"Gemma3ForConditionalGeneration"};
constexpr std::string_view kIdefics3Classes[] = {"Idefics3ForConditionalGeneration",
                                                 "SmolVLMForConditionalGeneration"};
constexpr std::string_view kLfm2Classes[] = {"Lfm2VlForConditionalGeneration"};

constexpr std::string_view kSiglipDefaults =
    R"({"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
        "num_attention_heads": 12, "image_size": 224, "patch_size": 16, "layer_norm_eps": 1e-6})";
// SigLIP 2 has a number of patches instead of an image size.
constexpr std::string_view kSiglip2Defaults =
    R"({"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
        "num_attention_heads": 12, "num_patches": 256, "patch_size": 16, "layer_norm_eps": 1e-6})";
constexpr std::string_view kIdefics3Defaults =
    R"({"hidden_size": 1152, "intermediate_size": 3072, "num_hidden_layers": 12,
        "num_attention_heads": 16, "image_size": 224, "patch_size": 32, "layer_norm_eps": 1e-6})";

void add_one(Shaping& shaping) { shaping.add(1); }

// mm_soft_emb_norm stores its weights minus 1. The norms of SigLIP store whole weights.
constexpr TensorRule kGemma3Names[] = {
    {"multi_modal_projector.mm_input_projection_weight", "mm.input_projection.weight"},
    {"multi_modal_projector.mm_soft_emb_norm", "mm.soft_emb_norm", add_one},
};

ProjectorSizes gemma3_sizes(const ProjectorModel& model) {
  ProjectorSizes sizes = standard_sizes(model.vision);
  const uint32_t side = model.whole.has("mm_tokens_per_image")
                            ? require_root(model.whole, "mm_tokens_per_image")
                            : 16;
  const uint32_t n_patches = sizes.image_size / sizes.patch_size;
  if (n_patches < side || n_patches % side != 0)
    model.whole.refuse("mm_tokens_per_image", "does not divide a picture into equal squares");
  sizes.merge = n_patches / side;
  return sizes;
}

void gemma3_keys(const ProjectorModel& model, const ProjectorSizes& sizes, KeyWriter& keys) {
  constexpr uint32_t kUsualMerge = 4;
  keys.flag("use_gelu", true);
  write_limit(keys, "vision.projector.scale_factor", sizes.merge, kUsualMerge);
  require_image_size(model, sizes);
  if (model.processor.flag("do_pan_and_scan"))
    model.note("\"do_pan_and_scan\" has no effect: pictures are not cropped");
}

// --- Idefics 3 ---

constexpr TensorRule kIdefics3Names[] = {
    {"connector.modality_projection.proj", "mm.model.fc"},
};

ProjectorSizes idefics3_sizes(const ProjectorModel& model) {
  ProjectorSizes sizes = standard_sizes(model.vision);
  sizes.merge = merge_of(model.whole, "scale_factor", 2);
  return sizes;
}

void idefics3_keys(const ProjectorModel& model, const ProjectorSizes& sizes, KeyWriter& keys) {
  keys.count("vision.projector.scale_factor", sizes.merge);
  keys.flag("use_gelu", true);
  keys.count("vision.preproc_image_size",
             size_of(model.processor, "longest_edge").value_or(sizes.image_size));
  if (model.processor.has("max_image_size")) {
    const ModelConfig tile = model.processor.part("max_image_size");
    if (tile.count({"longest_edge"}).value_or(sizes.image_size) != sizes.image_size)
      model.processor.refuse("max_image_size", "must be the image_size of vision_config");
  }
  if (!model.processor.flag("do_image_splitting", true))
    model.note("\"do_image_splitting\" has no effect: large pictures are cut into tiles");
}

// --- LFM2-VL ---

constexpr TensorRule kLfm2Names[] = {
    {"vision_tower.embeddings.patch_embedding.weight", "v.patch_embd.weight", as_patches},
    {"multi_modal_projector.layer_norm", "mm.input_norm"},
    {"multi_modal_projector.linear_1", "mm.1"},
    {"multi_modal_projector.linear_2", "mm.2"},
};

ProjectorSizes lfm2_sizes(const ProjectorModel& model) {
  const ModelConfig& vision = model.vision;
  const uint32_t patch_size = require_square(vision, "patch_size");
  return {.image_size = require_root(vision, "num_patches") * patch_size,
          .patch_size = patch_size,
          .n_embd = vision.n_embd(),
          .n_ff = vision.require_size({"intermediate_size"}),
          .n_layers = vision.n_layers(),
          .n_heads = vision.n_heads(),
          .merge = merge_of(model.whole, "downsample_factor", 2),
          .norm_epsilon = vision.require_number({"layer_norm_eps"})};
}

void lfm2_keys(const ProjectorModel& model, const ProjectorSizes& sizes, KeyWriter& keys) {
  require_same(model.whole, "projector_hidden_act", "gelu");
  require_same(model.whole, "vision_feature_layer", -1);
  keys.count("vision.projector.scale_factor", sizes.merge);
  keys.flag("use_gelu", true);
  const ModelConfig& processor = model.processor;
  require_same(processor, "tile_size", 512);
  require_same(processor, "max_pixels_tolerance", 2.0);
  require_flag(processor, "use_thumbnail", true);
  const uint64_t side = uint64_t{sizes.patch_size} * sizes.merge;
  constexpr uint64_t kMinTokens = 64;
  constexpr uint64_t kMaxTokens = 256;
  write_limit(keys, "vision.image_min_pixels",
              pixels_of_tokens(processor, "min_image_tokens", side), kMinTokens * side * side);
  write_limit(keys, "vision.image_max_pixels",
              pixels_of_tokens(processor, "max_image_tokens", side), kMaxTokens * side * side);
  const bool splits = processor.flag("do_image_splitting", true);
  write_limit(keys, "vision.preproc_min_tiles", splits ? processor.count({"min_tiles"}) : 1, 2);
  write_limit(keys, "vision.preproc_max_tiles", splits ? processor.count({"max_tiles"}) : 1, 10);
}

}  // namespace

const ProjectorFamily kGemma3Projector = {.classes = kGemma3Classes,
                                          .projector = "gemma3",
                                          .rules = {kGemma3Names, siglip_names()},
                                          .sizes = gemma3_sizes,
                                          .keys = gemma3_keys,
                                          .output = "mm.input_projection.weight",
                                          .defaults = kSiglipDefaults,
                                          .resample = 2,
                                          .keeps_patches_in_f32 = true,
                                          .keeps_output_in_f16 = true,
                                          .turns_output = true};
const ProjectorFamily kIdefics3Projector = {.classes = kIdefics3Classes,
                                            .projector = "idefics3",
                                            .rules = {kIdefics3Names, siglip_names()},
                                            .sizes = idefics3_sizes,
                                            .keys = idefics3_keys,
                                            .output = "mm.model.fc.weight",
                                            .defaults = kIdefics3Defaults,
                                            .resample = 1,
                                            .keeps_patches_in_f32 = true};
const ProjectorFamily kLfm2Projector = {.classes = kLfm2Classes,
                                        .projector = "lfm2",
                                        .rules = {kLfm2Names, siglip_names()},
                                        .sizes = lfm2_sizes,
                                        .keys = lfm2_keys,
                                        .output = "mm.2.weight",
                                        .defaults = kSiglip2Defaults,
                                        .resample = 2};

}  // namespace billow::convert
