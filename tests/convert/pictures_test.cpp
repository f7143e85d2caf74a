// Compares conversion of projectors with llama.cpp's converter. golden/pictures/NAME.json has the
// configuration of a vision-language model, the names and shapes of its tensors, and the results of
// that converter. record_pictures.py describes how the files are made.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/vision/picture_encoder.h"
#include "base/error.h"
#include "base/json.h"
#include "convert/convert.h"
#include "convert/golden_values.h"
#include "convert/sample_model.h"
#include "gguf/file.h"
#include "quant/type.h"

namespace billow::convert {
namespace {

constexpr const char* kFolder = BILLOW_CONVERT_GOLDEN;

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

class PictureModel : public testing::Test {
 protected:
  void read(const std::string& name) {
    std::ifstream file(std::string(kFolder) + "/" + name + ".json");
    golden = Json::parse(file);
    model.config = golden["config"];
    model.tensors.clear();
    for (const auto& [tensor, shape] : golden["checkpoint"].items())
      model.tensors[tensor] = {shape.get<std::vector<uint64_t>>(), "F32"};
    model.tokenizer = tokenizer_of(golden["config"]);
    const std::string number = std::to_string(golden["break"].get<int>());
    model.tokenizer["model"]["vocab"].erase("t" + number);
    model.tokenizer["added_tokens"].push_back(
        {{"id", golden["break"]}, {"content", "[IMG_BREAK]"}, {"special", true}});
    model.texts["preprocessor_config.json"] = golden["processor"].dump();
  }

  gguf::File make(quant::Type type, Part part = Part::kPictures, bool with_projector = false) {
    bytes.clear();
    notes.clear();
    convert(model.files(),
            {.name = "m", .weight_type = type, .part = part, .with_projector = with_projector},
            {.note = [&](const std::string& line) { notes.push_back(line); }, .progress = {}},
            [&](std::span<const std::byte> piece) {
              bytes.insert(bytes.end(), piece.begin(), piece.end());
            });
    return gguf::File::parse(bytes, "converted");
  }

  std::string refusal(Part part = Part::kPictures) {
    try {
      make(quant::Type::kF16, part);
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
      return error.what();
    }
    return "";
  }

  void set_processor(const std::function<void(Json& processor)>& change) {
    Json processor = golden["processor"];
    change(processor);
    model.texts["preprocessor_config.json"] = processor.dump();
  }

  Json golden;
  SampleModel model;
  std::vector<std::byte> bytes;
  std::vector<std::string> notes;
};

class Pictures : public PictureModel, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { read(GetParam()); }
};

TEST_P(Pictures, MatchLlamaCppsConverter) {
  const gguf::File file = make(quant::Type::kF32);
  EXPECT_EQ(file.get_string("general.architecture"), "clip");
  EXPECT_EQ(file.get_string("general.type"), "mmproj");
  EXPECT_EQ(notes, std::vector<std::string>());
  Json keys = golden["keys"];
  keys.update(golden["differs"]);
  for (const auto& [key, value] : keys.items()) {
    const gguf::Value* found = file.find(key);
    if (found == nullptr) {
      ADD_FAILURE() << "no key " << key << " = " << value;
      continue;
    }
    compare_value(key, value, *found);
  }
  for (const gguf::Entry& entry : file.metadata()) {
    if (!entry.key.starts_with("general.")) {
      EXPECT_TRUE(keys.contains(entry.key)) << "an unexpected key: " << entry.key;
    }
  }
  for (const auto& [name, row] : golden["tensors"].items()) {
    const gguf::TensorInfo* tensor = file.find_tensor(name);
    if (tensor == nullptr) {
      ADD_FAILURE() << "no tensor " << name;
      continue;
    }
    EXPECT_EQ(shape_of(*tensor), row[0]) << name;
    EXPECT_EQ(digest(numbers_of(*tensor)), row[3].get<std::string>()) << name;
  }
  for (const gguf::TensorInfo& tensor : file.tensors())
    EXPECT_TRUE(golden["tensors"].contains(tensor.name)) << "an unexpected tensor: " << tensor.name;
}

TEST_P(Pictures, HaveTheTypesOfLlamaCppsConverter) {
  constexpr std::array kTypes = {std::pair{quant::Type::kBF16, 1}, std::pair{quant::Type::kF16, 2},
                                 std::pair{quant::Type::kQ8_0, 2}};
  for (const auto& [type, column] : kTypes) {
    const gguf::File file = make(type);
    EXPECT_EQ(file.get_uint("general.file_type"), column == 1 ? 32u : 1u);
    EXPECT_EQ(notes.size(), type == quant::Type::kQ8_0 ? 1u : 0u) << "the type is another one";
    for (const gguf::TensorInfo& tensor : file.tensors()) {
      EXPECT_EQ(quant::find_type(tensor.type)->name,
                golden["tensors"][tensor.name][static_cast<size_t>(column)].get<std::string>())
          << tensor.name;
    }
  }
}

TEST_P(Pictures, AreReadByTheEngine) {
  // The numbers of the pattern are no limits.
  std::erase_if(model.tensors, [](const auto& tensor) {
    return tensor.first.ends_with("_min") || tensor.first.ends_with("_max");
  });
  for (const quant::Type type : {quant::Type::kF32, quant::Type::kBF16, quant::Type::kF16}) {
    const gguf::File file = make(type);
    const auto encoder = arch::load_picture_encoder(file, {});
    EXPECT_EQ(encoder->info().n_embd, golden["config"]["text_config"]["hidden_size"]);
  }
}

TEST_P(Pictures, TextPartIsConvertedAlone) {
  EXPECT_TRUE(has_projector(model.files()));
  const gguf::File file = make(quant::Type::kF32, Part::kText, true);
  EXPECT_EQ(file.get_string("general.architecture"), golden["text"].get<std::string>());
  EXPECT_EQ(notes, std::vector<std::string>());
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    EXPECT_FALSE(tensor.name.starts_with("v.")) << tensor.name;
    EXPECT_FALSE(tensor.name.starts_with("mm.")) << tensor.name;
  }
  make(quant::Type::kF32, Part::kText);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(notes[0].starts_with("the part for pictures is left out (")) << notes[0];
}

TEST_P(Pictures, MissingPartsAreRefused) {
  const SampleTensors all = model.tensors;
  // Parts of a layer that some family has.
  constexpr std::string_view kParts[] = {"mlp.fc2.weight",
                                         "attn.proj.weight",
                                         "attn.proj.bias",
                                         "attention.projection_layer.weight",
                                         "self_attn.o_proj.linear.weight",
                                         "attention.v_proj.weight",
                                         "layer_norm2.bias",
                                         "self_attn.q_norm.weight"};
  size_t n_refused = 0;
  for (const auto& [name, tensor] : all) {
    const auto is_end = [&](std::string_view part) { return name.ends_with(part); };
    if (name.find(".1.") == std::string::npos || std::ranges::none_of(kParts, is_end)) continue;
    if (name.starts_with("language_model.") || name.find("language_model.") != std::string::npos)
      continue;
    model.tensors.erase(name);
    EXPECT_TRUE(refusal().starts_with("the tensor that becomes 'v.blk.1."))
        << name << ": " << refusal();
    model.tensors = all;
    ++n_refused;
  }
  EXPECT_GT(n_refused, 0u);
  model.tensors["vision_tower.odd.weight"] = {{4}, "F32"};
  EXPECT_TRUE(refusal().starts_with("tensor 'vision_tower.odd.weight' has no known use"))
      << refusal();
  model.tensors = all;
  Json& vision = model.config["vision_config"];
  vision[vision.contains("depth") ? "depth" : "num_hidden_layers"] = 2;
  EXPECT_NE(refusal(), "");
}

TEST_P(Pictures, MissingProcessorIsRefused) {
  model.texts.erase("preprocessor_config.json");
  EXPECT_TRUE(refusal().starts_with("preprocessor_config.json is missing")) << refusal();
  // The newer file has the same fields in an object.
  model.texts["processor_config.json"] = Json{{"image_processor", golden["processor"]}}.dump();
  EXPECT_EQ(refusal(), "");
}

INSTANTIATE_TEST_SUITE_P(Families, Pictures, testing::ValuesIn(golden_names()), test_name);

// Each case changes one field of a model, which must then be refused with this text.
struct Refused {
  const char* name;
  const char* of;  // "" for config.json, else "vision_config" or "processor"
  const char* field;
  Json value;
  const char* why;
};
const Refused kRefused[] = {
    {"gemma3", "vision_config", "hidden_act", "relu", "\"hidden_act\": 'relu' is not supported"},
    {"gemma3", "vision_config", "num_channels", 4, "\"num_channels\" must be 3"},
    {"gemma3", "vision_config", "num_attention_heads", 3, "does not divide the width of 32"},
    {"gemma3", "vision_config", "intermediate_size", 41, "config.json requires 32 x 41"},
    {"gemma3", "vision_config", "patch_size", 8, "the tensor that becomes 'v.patch_embd.weight'"},
    {"gemma3", "", "mm_tokens_per_image", 5, "\"mm_tokens_per_image\" must be a square number"},
    {"gemma3", "", "mm_tokens_per_image", 9, "\"mm_tokens_per_image\" does not divide"},
    {"gemma3", "processor", "size", {{"height", 64}, {"width", 64}}, "\"size\" must be the image"},
    {"gemma3", "processor", "image_mean", Json(), "\"image_mean\" must be a list of 3"},
    {"gemma3", "processor", "rescale_factor", 1.0, "\"rescale_factor\" must be 1/255"},
    {"gemma3", "processor", "do_rescale", false, "\"do_rescale\" must be true"},
    {"gemma3", "processor", "image_std", {1e300, 1, 1}, "\"image_std\" must be a list of 3"},
    {"gemma3", "vision_config", "patch_size", 0, "\"patch_size\" must be from 1 to 4096"},
    {"gemma3", "vision_config", "image_size", 2, "\"mm_tokens_per_image\" does not divide"},
    {"gemma4", "processor", "max_soft_tokens", 2147483647, "\"max_soft_tokens\" is 0 or too"},
    {"gemma4", "processor", "pooling_kernel_size", 2, "\"pooling_kernel_size\" must be 3"},
    {"gemma4", "vision_config", "head_dim", 8, "\"head_dim\" must be 16"},
    {"smolvlm", "processor", "max_image_size", {{"longest_edge", 8}}, "must be the image_size"},
    {"internvl", "", "downsample_ratio", 0.3, "\"downsample_ratio\" must be 1/n"},
    {"internvl", "vision_config", "image_size", {16, 32}, "two equal sizes"},
    {"internvl", "processor", "size", {{"height", 8}, {"width", 8}}, "\"size\" must be the image"},
    {"internvl-authors", "", "ps_version", "v1", "\"ps_version\" must be \"v2\""},
    {"internvl-authors", "", "use_thumbnail", false, "\"use_thumbnail\" must be true"},
    {"lfm2vl", "", "vision_feature_layer", -2, "\"vision_feature_layer\" must be -1"},
    {"lfm2vl", "processor", "tile_size", 256, "\"tile_size\" must be 512"},
    {"llama4", "vision_config", "pixel_shuffle_ratio", 0, "\"pixel_shuffle_ratio\" must be 1/n"},
    {"llama4", "processor", "resize_to_max_canvas", true, "\"resize_to_max_canvas\" must be false"},
    {"pixtral", "", "vision_feature_layer", Json(), "\"vision_feature_layer\" is missing"},
    {"mistral3", "", "projector_hidden_act", "relu", "\"projector_hidden_act\" must be \"gelu\""},
    {"smolvlm", "", "scale_factor", 0, "\"scale_factor\" must be from 1 to 64"},
    {"lfm2vl", "vision_config", "num_patches", 15, "\"num_patches\" must be a square number"},
    {"qwen2vl", "vision_config", "mlp_ratio", -1, "\"mlp_ratio\" must be from 0 to 64"},
    {"qwen2vl", "vision_config", "depth", 2147483647, "is more than 512"},
    {"qwen2vl", "vision_config", "temporal_patch_size", 1, "\"temporal_patch_size\" must be 2"},
    {"qwen25vl", "vision_config", "window_size", 56, "\"window_size\" must be 112"},
    {"qwen25vl", "vision_config", "fullatt_block_indexes", {1, 2}, "must be every n-th layer"},
    {"qwen3vl", "vision_config", "deepstack_visual_indexes", {1, 9}, "must be a list of layers"},
    {"qwen3vl", "vision_config", "num_position_embeddings", 15, "must be a square number"},
    {"qwen3vl", "", "text_config", {{"hidden_size", 40}}, "the width of the text model"}};

TEST_F(PictureModel, RefusedFieldsAreNamed) {
  for (const Refused& one : kRefused) {
    SCOPED_TRACE(std::string(one.name) + " " + one.field);
    read(one.name);
    const std::string of = one.of;
    if (of == "processor") {
      set_processor([&](Json& processor) { processor[one.field] = one.value; });
    } else if (of.empty()) {
      model.config[one.field] = one.value;
    } else {
      model.config[of][one.field] = one.value;
    }
    const std::string why = refusal();
    EXPECT_NE(why.find(one.why), std::string::npos) << why;
  }
}

TEST_F(PictureModel, ModelsWithoutKnownPicturesAreTextModels) {
  read("gemma3");
  model.config["architectures"] = {"Gemma3ForCausalLM"};
  EXPECT_FALSE(has_projector(model.files()));
  EXPECT_TRUE(refusal().starts_with(
      "config.json: the part for pictures of 'Gemma3ForCausalLM' cannot be converted (known"))
      << refusal();
  EXPECT_EQ(refusal(Part::kText), "");
  model.config = golden["config"];
  model.config.erase("vision_config");
  EXPECT_FALSE(has_projector(model.files()));
  EXPECT_EQ(refusal(), "config.json: the model has no \"vision_config\"");
  model.config = golden["config"];
  std::erase_if(model.tensors,
                [](const auto& tensor) { return !tensor.first.starts_with("language_model."); });
  EXPECT_FALSE(has_projector(model.files()));
  EXPECT_EQ(refusal(), "there are no tensors of a part for pictures");
}

// LLaVA with another encoder than Pixtral's has the same class.
TEST_F(PictureModel, OtherEncodersOfAClassAreNotConverted) {
  read("pixtral");
  model.config["vision_config"]["model_type"] = "clip_vision_model";
  EXPECT_FALSE(has_projector(model.files()));
  EXPECT_EQ(refusal(Part::kText), "");
  EXPECT_EQ(notes.size(), 1u);
}

TEST_F(PictureModel, TextPartsAreFoundByTheirType) {
  for (const auto& [name, architecture] : {std::pair{"smolvlm", "llama"},
                                           {"internvl", "qwen2"},
                                           {"internvl-norms", "qwen3"},
                                           {"lfm2vl", "lfm2"}}) {
    read(name);
    model.config["text_config"].erase("architectures");
    EXPECT_EQ(make(quant::Type::kF16, Part::kText).get_string("general.architecture"),
              architecture);
    model.config["text_config"]["architectures"] = {"VLlama3ForCausalLM"};  // SmolVLM's
    EXPECT_EQ(make(quant::Type::kF16, Part::kText).get_string("general.architecture"),
              architecture);
    model.config["text_config"]["model_type"] = "odd";
    EXPECT_TRUE(
        refusal(Part::kText)
            .starts_with("config.json: the text part of the type 'odd' is not supported in a "))
        << refusal(Part::kText);
  }
}

TEST_F(PictureModel, OmittedFieldsHaveTheDefaultsOfTheLibrary) {
  for (const auto& [name, field] :
       {std::pair{"smolvlm", "num_attention_heads"}, {"qwen2vl", "num_heads"}}) {
    read(name);
    model.config["vision_config"][field] = nullptr;
    EXPECT_EQ(make(quant::Type::kF16).get_uint("clip.vision.attention.head_count"), 16u);
    model.config["vision_config"].erase(field);
    EXPECT_EQ(make(quant::Type::kF16).get_uint("clip.vision.attention.head_count"), 16u);
  }
}

TEST_F(PictureModel, FieldsWithoutEffectAreNoted) {
  read("gemma3");
  set_processor([](Json& processor) {
    processor["resample"] = 3;
    processor["do_pan_and_scan"] = true;
  });
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(notes, (std::vector<std::string>{
                       "pictures are resized with the filter bilinear, not bicubic as "
                       "preprocessor_config.json says",
                       "\"do_pan_and_scan\" has no effect: pictures are not cropped"}));
}

// Without the word, Billow can use the projector, but llama.cpp cannot.
TEST_F(PictureModel, MissingBreakIsNoted) {
  read("mistral3");
  model.tokenizer["added_tokens"] = Json::array();
  EXPECT_EQ(make(quant::Type::kF16).find_tensor("v.token_embd.img_break"), nullptr);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "the vocabulary has no [IMG_BREAK]: llama.cpp cannot use the projector");
}

// The newest versions of the library save the parts of a model under other names.
TEST_F(PictureModel, NamesOfSeveralVersionsAreKnown) {
  read("gemma3");
  const auto shapes_of = [](const gguf::File& file) {
    std::vector<std::pair<std::string, Json>> shapes;
    for (const gguf::TensorInfo& tensor : file.tensors())
      shapes.emplace_back(tensor.name, shape_of(tensor));
    return shapes;
  };
  const auto published = shapes_of(make(quant::Type::kF16));
  SampleTensors newest;
  for (const auto& [name, tensor] : model.tensors) {
    std::string other = name;
    constexpr std::string_view kTower = "vision_tower.vision_model.";
    if (name.starts_with(kTower)) other = "vision_tower." + name.substr(kTower.size());
    if (!name.starts_with("language_model.")) other = "model." + other;
    newest[other] = tensor;
  }
  model.tensors = newest;
  EXPECT_EQ(shapes_of(make(quant::Type::kF16)), published);
}

}  // namespace
}  // namespace billow::convert
