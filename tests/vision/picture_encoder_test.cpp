// Compares picture encoders with the features that Hugging Face transformers computes, and tests
// that a row depends only on its tile. Without the folder ../shared the tests are skipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "cpu/features.h"
#include "quant/type.h"
#include "vision/tiny_pictures.h"

namespace billow::pictures {
namespace {

std::vector<const kernels::KernelTable*> supported_tables() {
  std::vector<const kernels::KernelTable*> tables;
  for (const kernels::KernelTable* table : kernels::tables())
    if (table->supported(cpu::features())) tables.push_back(table);
  return tables;
}

const kernels::KernelTable& scalar() { return *kernels::tables().back(); }

// Weights are F32. Most families are within 2e-6.
constexpr double kTolerance = 1e-5;

class PictureFamily : public testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    if (const std::string missing = missing_data(); !missing.empty()) GTEST_SKIP() << missing;
  }
};

TEST_P(PictureFamily, FeaturesOfRecordedPixelsEqualTransformers) {
  const gguf::File file = open(GetParam());
  const vision::Pixels pixels = recorded_pixels(GetParam(), rule_of(GetParam(), file));
  const std::vector<float> expected = npy_floats(folder() + GetParam().name + ".features.npy");
  for (const kernels::KernelTable* table : supported_tables()) {
    const Loaded loaded = load(file, *table);
    const double difference = relative_difference(run(*loaded.encoder, *table, pixels), expected);
    std::cout << GetParam().name << ", " << table->name << ": " << difference << "\n";
    EXPECT_LE(difference, kTolerance) << table->name;
  }
}

TEST_P(PictureFamily, FeaturesOfThePictureEqualTransformers) {
  const gguf::File file = open(GetParam());
  const vision::Pixels pixels = pixels_of_picture(rule_of(GetParam(), file));
  const std::vector<float> expected = npy_floats(folder() + GetParam().name + ".features.npy");
  const Loaded loaded = load(file, scalar());
  const double difference = relative_difference(run(*loaded.encoder, scalar(), pixels), expected);
  std::cout << GetParam().name << ": " << difference << "\n";
  EXPECT_LE(difference, kTolerance);
}

// Two pictures of different shapes share a pass, if the family has more than one shape.
TEST_P(PictureFamily, ARowDependsOnlyOnItsTile) {
  const gguf::File file = open(GetParam());
  const vision::Rule rule = rule_of(GetParam(), file);
  const kernels::KernelTable& best = kernels::select_table(kernels::Work::kEncoder);
  const Loaded loaded = load(file, best);
  const arch::PictureEncoder& encoder = *loaded.encoder;
  std::vector<float> expected;
  vision::Pixels together;
  for (const image::Size size :
       {image::Size{150, 100}, image::Size{90, 120}, image::Size{40, 40}}) {
    const vision::Pixels pixels = vision::preprocess(rule, drawn(size));
    const std::vector<float> alone = run(encoder, best, pixels);
    expected.insert(expected.end(), alone.begin(), alone.end());
    for (vision::Tile tile : pixels.plan.tiles) {
      tile.first_patch += together.plan.n_patches;
      together.plan.tiles.push_back(tile);
    }
    together.plan.n_patches += pixels.plan.n_patches;
    together.patches.insert(together.patches.end(), pixels.patches.begin(), pixels.patches.end());
  }
  EXPECT_TRUE(std::ranges::none_of(expected, [](float value) { return std::isnan(value); }));
  for (const int n_threads : {1, 2, 3})
    EXPECT_EQ(run(encoder, best, together, n_threads), expected) << n_threads << " threads";
}

TEST_P(PictureFamily, PackedWeightsChangeNoBit) {
  const gguf::File file = open(GetParam());
  const vision::Pixels pixels = pixels_of_picture(rule_of(GetParam(), file));
  const kernels::KernelTable& best = kernels::select_table(kernels::Work::kEncoder);
  EXPECT_EQ(run(*load(file, best, true).encoder, best, pixels),
            run(*load(file, best, false).encoder, best, pixels));
}

// Files in practice have matrices in other formats. Matrices whose rows have no whole groups stay
// as they are.
TEST_P(PictureFamily, MatricesMayHaveOtherFormats) {
  const gguf::File file = open(GetParam());
  const vision::Pixels pixels = pixels_of_picture(rule_of(GetParam(), file));
  const std::vector<float> expected = npy_floats(folder() + GetParam().name + ".features.npy");
  struct Format {
    quant::Type type;
    double tolerance;  // 8 bits of mantissa in 3 or 4 layers and their projector
  };
  for (const auto& [type, tolerance] :
       {Format{quant::Type::kF16, 1e-4}, Format{quant::Type::kBF16, 1e-5},
        Format{quant::Type::kQ8_0, 0.05}}) {
    const std::vector<std::byte> bytes = with_matrices(file, type);
    const gguf::File other = gguf::File::parse(bytes, "other.gguf");
    const double difference =
        relative_difference(run(*load(other, scalar()).encoder, scalar(), pixels), expected);
    std::cout << GetParam().name << " in " << quant::row(type).name << ": " << difference << "\n";
    EXPECT_LE(difference, tolerance) << quant::row(type).name;
    EXPECT_GT(difference, 0.0);
  }
}

// Some tables compute 16-bit formats with activations that have 8 bits of mantissa, too.
TEST_P(PictureFamily, SixteenBitMatricesWorkOnEveryTable) {
  const gguf::File file = open(GetParam());
  const vision::Pixels pixels = pixels_of_picture(rule_of(GetParam(), file));
  const std::vector<float> expected = npy_floats(folder() + GetParam().name + ".features.npy");
  for (const quant::Type type : {quant::Type::kF16, quant::Type::kBF16}) {
    const std::vector<std::byte> bytes = with_matrices(file, type);
    const gguf::File other = gguf::File::parse(bytes, "other.gguf");
    for (const kernels::KernelTable* table : supported_tables()) {
      const Loaded loaded = load(other, *table);
      const double difference = relative_difference(run(*loaded.encoder, *table, pixels), expected);
      std::cout << GetParam().name << " in " << quant::row(type).name << ", " << table->name << ": "
                << difference << "\n";
      EXPECT_LE(difference, 0.02) << table->name;
    }
  }
}

TEST_P(PictureFamily, APassMayHaveNoPictures) {
  const gguf::File file = open(GetParam());
  EXPECT_TRUE(run(*load(file, scalar()).encoder, scalar(), arch::PictureBatch{}).empty());
}

INSTANTIATE_TEST_SUITE_P(TinyModels, PictureFamily, testing::ValuesIn(families()), test_name);

}  // namespace
}  // namespace billow::pictures
