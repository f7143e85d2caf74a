// Tests models that are created from safetensors with a part for pictures.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/test_folder.h"
#include "store/create.h"
#include "store/folder.h"
#include "store/sample_gguf.h"
#include "store/sample_model.h"

namespace billow::store {
namespace {

using Part = Conversion::Part;

gguf::Writer sample_projector() {
  gguf::Writer writer = sample_gguf("clip");
  writer.set_string("general.type", "mmproj");
  writer.set_bool("clip.has_vision_encoder", true);
  return writer;
}

class CreateProjector : public testing::Test {
 protected:
  CreateProjector() {
    hooks.has_projector = [](const Conversion& conversion) {
      return conversion.files.front().name == "model.safetensors";
    };
    hooks.convert = [&](const Conversion& conversion, const ByteSink& sink) {
      seen.push_back(conversion);
      if (conversion.part != Part::kProjector && fails) throw Error(ErrorCode::kIo, "no disk");
      sink(conversion.part == Part::kProjector ? projector : weights);
    };
    hooks.has_weight_type = [](std::string_view name) { return name == "bf16"; };
    hooks.progress = [&](const std::string& status) { statuses.push_back(status); };
    hooks.has_quantization = [](std::string_view) { return true; };
    hooks.quantize = [&](const Quantization& asked, const ByteSink& sink) {
      quantized.push_back(asked.path);
      sink(small);
    };
    request.model = "m";
    const std::string digest = store.add_layer(kSystemLayer, "weights").digest.text();
    request.files = {{{"model.safetensors", digest}}};
  }

  static Digest digest(const std::vector<std::byte>& bytes) {
    return digest_of(std::span<const std::byte>(bytes));
  }
  static std::vector<std::byte> bytes_of_type(gguf::Writer writer, uint32_t file_type) {
    writer.set_uint("general.file_type", file_type);
    return writer.to_bytes();
  }

  TestFolder folder;
  Store store{folder.path()};
  CreateHooks hooks;
  CreateRequest request;
  std::vector<std::byte> weights = bytes_of_type(sample_gguf("gemma3"), 1);
  std::vector<std::byte> small = bytes_of_type(sample_gguf("gemma3"), 15);
  std::vector<std::byte> projector = bytes_of_type(sample_projector(), 1);
  std::vector<Conversion> seen;
  std::vector<std::string> statuses;
  std::vector<std::string> quantized;
  bool fails = false;
};

TEST_F(CreateProjector, ModelGetsALayerForEachFile) {
  request.quantize = "bf16";
  const auto model = load_model(store, create_model(store, request, hooks));
  ASSERT_TRUE(model);
  EXPECT_EQ(unsound_model(store), "");
  const auto& layers = model->stored.manifest.layers;
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].media_type, kModelLayer);
  EXPECT_EQ(layers[0].digest, digest(weights));
  EXPECT_EQ(layers[1].media_type, kProjectorLayer);
  EXPECT_EQ(layers[1].digest, digest(projector));
  EXPECT_EQ(model->config.model_family, "gemma3");
  EXPECT_EQ(model->config.model_families, (std::vector<std::string>{"gemma3", "clip"}));
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].part, Part::kProjector) << "its faults are found before the long work";
  EXPECT_EQ(seen[1].part, Part::kModelWithProjector);
  for (const Conversion& conversion : seen) EXPECT_EQ(conversion.weight_type, "bf16");
  EXPECT_EQ(std::vector(statuses.begin(), statuses.begin() + 3),
            (std::vector<std::string>{"converting projector", "converting model",
                                      "verifying conversion"}));
}

TEST_F(CreateProjector, OnlyTheModelIsQuantized) {
  request.quantize = "q4_K_M";
  const auto model = load_model(store, create_model(store, request, hooks));
  ASSERT_TRUE(model);
  const auto& layers = model->stored.manifest.layers;
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].digest, digest(small));
  EXPECT_EQ(layers[1].digest, digest(projector));
  EXPECT_EQ(quantized, std::vector<std::string>{store.blob_path(digest(weights))});
  EXPECT_EQ(model->config.file_type, "Q4_K_M");
}

TEST_F(CreateProjector, FailureLeavesNoFiles) {
  fails = true;
  EXPECT_THROW(create_model(store, request, hooks), Error);
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_TRUE(children(folder.path() + "/blobs").empty());
}

TEST_F(CreateProjector, EndsWhileAFileIsWritten) {
  int n = 0;
  hooks.check = [&] {
    if (++n == 2) throw Error(ErrorCode::kIo, "the client has gone");
  };
  EXPECT_THROW(create_model(store, request, hooks), Error);
  EXPECT_EQ(n, 2);
  EXPECT_TRUE(children(folder.path() + "/blobs").empty());
}

TEST_F(CreateProjector, AStoredModelGetsOtherProjectors) {
  create_model(store, request, hooks);
  CreateRequest other;
  other.model = "n";
  other.from = "m";
  gguf::Writer writer = sample_projector();
  writer.set_string("general.name", "another");
  other.files = {{{"mmproj.gguf", add_gguf(store, writer).text()}}};
  const auto model = load_model(store, create_model(store, other, hooks));
  ASSERT_TRUE(model);
  const auto& layers = model->stored.manifest.layers;
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].digest, digest(weights));
  EXPECT_EQ(layers[1].media_type, kProjectorLayer);
  EXPECT_EQ(layers[1].digest.text(), other.files->front().digest);
  EXPECT_EQ(model->config.model_families, (std::vector<std::string>{"gemma3", "clip"}));
  EXPECT_EQ(unsound_model(store), "");
  other.files = {{{"a.gguf", digest(weights).text()}}};
  try {
    create_model(store, other, hooks);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    EXPECT_STREQ(error.what(),
                 "a.gguf: only a projector can be added to another model, and this is none");
  }
}

TEST_F(CreateProjector, ModelsWithoutOneAreConvertedAlone) {
  request.files->front().path = "other.safetensors";
  const auto model = load_model(store, create_model(store, request, hooks));
  ASSERT_TRUE(model);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].part, Part::kModel);
  EXPECT_EQ(model->stored.manifest.layers.size(), 1u);
}

}  // namespace
}  // namespace billow::store
