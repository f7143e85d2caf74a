#include "cli/client/vector_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/test_folder.h"
#include "cli/client/vector_recipe.h"
#include "cli/numpy.h"
#include "store/folder.h"

namespace billow::cli {
namespace {

using Vector = std::vector<float>;

std::string bytes_of(const std::string& path) {
  const auto content = store::read_file(path, 1 << 20);
  return content ? content->bytes : "absent";
}

TEST(VectorFile, AppearsOnceItIsComplete) {
  const TestFolder folder;
  const std::string path = folder.path() + "/v.npy";
  VectorFile file(path, VectorFormat::kNumpy, "job");
  file.append(0, Vector{1.0f, -2.0f});
  file.append(1, Vector{0.5f, 0.0f});
  EXPECT_THROW(file.append(2, Vector{1.0f}), Error);
  EXPECT_EQ(bytes_of(path), "absent");
  file.checkpoint();
  file.publish();
  const std::string values("\0\0\x80\x3f\0\0\0\xc0\0\0\0\x3f\0\0\0\0", 16);
  EXPECT_EQ(bytes_of(path), numpy_header(2, 2) + values);
  EXPECT_EQ(store::children(folder.path()), std::vector<std::string>{"v.npy"});
}

TEST(VectorFile, ResumesAfterTheLastMark) {
  const TestFolder folder;
  const std::string path = folder.path() + "/v.jsonl";
  {
    VectorFile file(path, VectorFormat::kJsonLines, "job");
    file.append(7, Vector{1.0f});
    file.mark(100);
    file.append(8, Vector{2.0f});
    file.checkpoint();  // in the middle of a batch
  }
  VectorFile file(path, VectorFormat::kJsonLines, "job");
  EXPECT_FALSE(file.part().was_of_another_job());
  EXPECT_EQ(file.n_rows(), 1u);
  EXPECT_EQ(file.n_values(), 1u);
  EXPECT_EQ(file.part().input_offset(), 100u);
  file.append(8, Vector{3.0f});
  file.publish();
  EXPECT_EQ(bytes_of(path), "{\"index\":7,\"embedding\":[1]}\n{\"index\":8,\"embedding\":[3]}\n");
}

TEST(VectorFile, StartsOverForAnotherJob) {
  const TestFolder folder;
  const std::string path = folder.path() + "/v.jsonl";
  {
    VectorFile file(path, VectorFormat::kJsonLines, "job");
    file.append(0, Vector{1.0f});
    file.mark(1);
    file.checkpoint();
    EXPECT_THROW(VectorFile(path, VectorFormat::kJsonLines, "job"), FileInUse);
  }
  {
    VectorFile file(path, VectorFormat::kJsonLines, "another");
    EXPECT_TRUE(file.part().was_of_another_job());
    EXPECT_EQ(file.n_rows(), 0u);
    file.append(0, Vector{2.0f});
    file.mark(1);
    file.checkpoint();
  }
  std::filesystem::resize_file(path + ".part", 3);
  VectorFile file(path, VectorFormat::kJsonLines, "another");
  EXPECT_EQ(file.n_rows(), 0u) << "a part that became shorter cannot resume";
  file.publish();
  EXPECT_EQ(bytes_of(path), "");
}

TEST(VectorFile, DerivesTheFormatFromTheName) {
  EXPECT_EQ(vector_format_of("a.NPY"), VectorFormat::kNumpy);
  EXPECT_EQ(vector_format_of("a.jsonl"), VectorFormat::kJsonLines);
  EXPECT_EQ(vector_format_of(""), VectorFormat::kJsonLines);
  EXPECT_THROW(vector_format_of("a.parquet"), Error);
}

TEST(VectorRecipe, WeightsIncludeTheAdapters) {
  const std::string blobs = "/models/blobs/sha256-";
  const std::string one(64, '1');
  const std::string two(64, '2');
  const auto weights = [](const std::string& modelfile) {
    return shown_weights(Json{{"modelfile", modelfile}}).value_or("none");
  };
  const std::string plain = "# from\nFROM " + blobs + one + "\n";
  EXPECT_EQ(weights(plain), "sha256:" + one);
  EXPECT_EQ(weights(plain + "FROM " + blobs + two + "\n"), "sha256:" + one) << "a projector";
  // printf '["sha256:11...","sha256:22..."]' | sha256sum
  EXPECT_EQ(weights(plain + "ADAPTER " + blobs + two + "\n"),
            "sha256:636d591478be5cb76f2025a46b17a229fa29ef91724891793005baa9eef2100e");
  EXPECT_EQ(weights(plain + "ADAPTER /a.gguf\n"), "none");
  EXPECT_EQ(weights("FROM x\n"), "none");
  EXPECT_EQ(weights(""), "none");
}

TEST(VectorRecipe, OnlyEqualRecipesHaveEqualFingerprints) {
  const VectorRecipe recipe{.weights = "sha256:00"};
  EXPECT_EQ(canonical_json(recipe),
            R"({"dimensions":0,"normalize":true,"op":"embed","pooling":"","prefix":"",)"
            R"("truncate":"right","weights":"sha256:00"})");
  EXPECT_EQ(fingerprint(recipe), fingerprint(VectorRecipe{.weights = "sha256:00"}));
  const VectorRecipe others[] = {
      {.weights = "sha256:01"},
      {.weights = "sha256:00", .pooling = "cls"},
      {.weights = "sha256:00", .prefix = "query: "},
      {.weights = "sha256:00", .dimensions = 64},
      {.weights = "sha256:00", .normalise = false},
      {.weights = "sha256:00", .truncation = "none"},
  };
  for (const VectorRecipe& other : others)
    EXPECT_NE(fingerprint(other), fingerprint(recipe)) << canonical_json(other);
}

}  // namespace
}  // namespace billow::cli
